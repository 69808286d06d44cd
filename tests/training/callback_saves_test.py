"""What callbacks save by Keras is rank 0's, whatever model it is, and by whatever name."""

from __future__ import annotations

import os

import keras
import pytest

import tf_adasum
from tests.training.replicas import (
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

X, Y = examples(16)


@keras.saving.register_keras_serializable()
class Slow(keras.layers.Dense):
    """Counts how often it is saved."""

    saves = 0

    def save_own_variables(self, store):
        Slow.saves += 1
        super().save_own_variables(store)


def compiled():
    with strategy(1).scope():
        model = small_model(Slow(4))
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01), mode="gradient"), "mse")
    return model


def fit(model, *callbacks, epochs=2):
    model.fit(X, Y, batch_size=8, epochs=epochs, verbose=0, callbacks=list(callbacks))


def at_epoch_end(act):
    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: act())


CLONES = {}


def save_clone(model, path):
    clone = CLONES.setdefault(path, keras.models.clone_model(model))
    clone.set_weights(model.get_weights())
    clone.save(path)


SAVES = {
    "save_model": (keras.saving.save_model, "m.keras"),
    "save_weights": (keras.saving.save_weights, "m.weights.h5"),
    "a clone": (save_clone, "m.keras"),
}


@pytest.mark.parametrize("how", SAVES)
def test_rank_0_alone_saves(how):
    save, name = SAVES[how]
    path = os.path.join(os.path.dirname(shared_path("folder")), name)
    model, before = compiled(), Slow.saves
    fit(model, at_epoch_end(lambda: save(model, path)))
    assert Slow.saves - before == (2 if world().rank == 0 else 0)
    assert os.listdir(os.path.dirname(path)) == [name]
    model.load_weights(path)
    barrier()
