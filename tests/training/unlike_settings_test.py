"""Ranks whose fit was told unlike things hear of it when it begins, and not from a wait's limit."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum as adasum
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.collectives.communicator import world

LAST = world().size - 1
# By setting: of fit, compile, wrap or the strategy: what the last rank has, and how it is said.
UNLIKE = {
    "epochs": ("fit", {"epochs": 3}, "2", "3"),
    "shuffle": ("fit", {"shuffle": False}, "True", "False"),
    "validation": ("fit", {"validation_data": examples(8)}, "none", "validation_data"),
    "validation of a split": ("fit", {"validation_split": 0.25}, "none", "0.25 of x"),
    "validation_freq": ("fit", {"validation_freq": 2}, "1", "2"),
    "loss": ("compile", {"loss": keras.losses.MeanAbsoluteError()}, "mse", "MeanAbsoluteError"),
    "metrics": ("compile", {"metrics": ["mae"]}, "none", r"\[mae\]"),
    "weighted_metrics": ("compile", {"weighted_metrics": ["mae"]}, "none", r"\[mae\]"),
    "optimizer of another class": ("wrap", {"class": keras.optimizers.SGD}, "Adam .*", "SGD .*"),
    "optimizer": ("wrap", {"accumulate": 2}, ".*accumulate=1.*", ".*accumulate=2.*"),
    "optimizer of another mode": ("wrap", {"mode": "gradient"}, ".*=delta.*", ".*=gradient.*"),
    "optimizer that no one wrapped": ("wrap", {"is_plain": True}, "Adam wrapped .*", "Adam"),
    "optimizer with an exchange of its own": (
        *("wrap", {"class": adasum.optimizers.CADA, "is_plain": True}),
        *("Adam wrapped .*", "CADA"),
    ),
    "reductions": (
        *("strategy", {"reductions": [("bias$", "mean")]}),
        *("none", r"\('bias\$', 'mean'\)"),
    ),
    "check_every": ("strategy", {"check_every": 5}, "0", "5"),
}


def _fit(**of):
    """Trains a model by what the strategy, wrap, compile and fit are told; returns its history."""
    wrapped = {"class": keras.optimizers.Adam, "is_plain": False} | of.get("wrap", {})
    kind, is_plain = wrapped.pop("class"), wrapped.pop("is_plain")
    x, y = examples(32)
    with strategy(1, **of.get("strategy", {})).scope():
        model = small_model()
        optimizer = kind(0.01) if is_plain else adasum.wrap(kind(0.01), **wrapped)
        model.compile(**{"optimizer": optimizer, "loss": "mse", **of.get("compile", {})})
    given = {"epochs": 2, "batch_size": 16, "verbose": 0, **of.get("fit", {})}
    return model.fit(x, y, **given).history


@pytest.mark.parametrize("setting", UNLIKE)
def test_one_rank_that_is_told_something_else(setting):
    of, told, first, last = UNLIKE[setting]
    own = {of: told} if world().rank == LAST else {}
    if LAST == 0:
        assert np.isfinite(_fit(**own)["loss"]).all()
        return
    pattern = (
        f"^rank {world().rank}: Expected the same {setting.split()[0]} on all ranks when fit "
        f"begins. Received: {first} on rank 0, {last} on rank {LAST}. Call compile and fit alike"
    )
    with pytest.raises(ValueError, match=pattern):
        _fit(**own)


def test_settings_that_only_look_unlike():
    """Nothing and a list of nothing, names of objects, what is said; after an error as before."""
    if LAST > 0:
        with pytest.raises(ValueError, match="Expected the same epochs"):
            _fit(fit={"epochs": 2 + world().rank})
    is_last = world().rank == LAST
    told = {
        "loss": keras.losses.MeanAbsoluteError(name=f"mae_{world().rank}"),
        "metrics": [] if is_last else None,
    }
    history = _fit(compile=told, fit={"verbose": 0 if is_last else 2})
    assert len(history["loss"]) == 2


def test_a_callback_may_fit_on_one_rank_alone():
    """What it trains is its own: nobody compares."""

    def fit_alone(*_):
        if world().rank == LAST:
            model = small_model()
            model.compile("sgd", "mae")
            model.fit(*examples(8), epochs=1, verbose=0)

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=fit_alone)]
    assert len(_fit(fit={"callbacks": callbacks})["loss"]) == 2
