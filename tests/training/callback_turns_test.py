"""Callbacks that call fit, evaluate or predict: on all ranks, or on one, which ends all at once."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum as adasum
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.collectives.communicator import world

LAST = world().size - 1
X, Y = examples(16)
TURNS = [
    *("on_train_begin", "on_epoch_begin", "on_train_batch_end"),
    *("on_test_begin", "on_test_end", "on_epoch_end", "on_train_end"),
]
# What callbacks do with the model.
ACTS = {
    "none": lambda _: None,
    "evaluate": lambda model: model.evaluate(X, Y, verbose=0),
    "predict": lambda model: model.predict(X, verbose=0),
    "the model itself": lambda model: model(X, training=False),
}


def _fit(turn: str, act: str):
    """Trains with a callback that acts when its turn comes first; returns the history."""
    with strategy(1).scope():
        model = small_model()
        model.compile(adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    begun = []

    def once(*_, **__):
        if not begun:
            begun.append(turn)
            ACTS[act](model)

    callback = keras.callbacks.Callback()
    setattr(callback, turn, once)
    fitted = model.fit(
        *(X, Y), validation_data=(X, Y), epochs=2, batch_size=8, verbose=0, callbacks=[callback]
    )
    assert begun == [turn]
    return fitted.history


@pytest.mark.parametrize("turn", TURNS)
def test_one_rank_evaluates_in_a_callback(turn):
    act = "evaluate" if world().rank == LAST else "none"
    if LAST == 0:
        assert np.isfinite(_fit(turn, act)["val_loss"]).all()
        return
    pattern = (
        f"^rank {world().rank}: Expected callbacks of all ranks to call the same of fit, evaluate "
        f"and predict in a turn. Received: none on rank 0, evaluate on rank {LAST}. Give all"
    )
    with pytest.raises(ValueError, match=pattern):
        _fit(turn, act)


def test_one_rank_evaluates_where_others_predict():
    if LAST == 0:
        assert np.isfinite(_fit("on_epoch_end", "evaluate")["val_loss"]).all()
        return
    with pytest.raises(ValueError, match=f"predict on rank 0, evaluate on rank {LAST}"):
        _fit("on_epoch_end", "evaluate" if world().rank == LAST else "predict")


@pytest.mark.parametrize("turn", TURNS)
def test_all_ranks_call_it_in_a_callback(turn):
    act = "evaluate" if turn.startswith("on_train") else "predict"
    assert np.isfinite(_fit(turn, act)["val_loss"]).all()


def test_one_rank_calls_the_model_itself():
    act = "the model itself" if world().rank == LAST else "none"
    assert len(_fit("on_epoch_end", act)["val_loss"]) == 2
