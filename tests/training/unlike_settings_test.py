"""Ranks that call unlike methods, or whose fit was told unlike things, hear of it at once."""

from __future__ import annotations

import functools
from typing import NamedTuple

import keras
import numpy as np
import pytest
from keras.losses import MeanAbsoluteError
from keras.optimizers import SGD
from keras.optimizers.schedules import CosineDecay

import tf_adasum as adasum
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.callbacks import LearningRateWarmup
from tf_adasum.collectives.communicator import world
from tf_adasum.collectives.compression import TopK
from tf_adasum.optimizers import CADA, OneBitAdam

LAST = world().size - 1


class Unlike(NamedTuple):
    """What the last rank is told, and what the error says of rank 0 and of it, by patterns."""

    of: str  # fit, compile, wrap or strategy
    told: dict
    first: str
    last: str
    others: dict | None = None  # what the other ranks are told


def _wrap(first: str, last: str, **told) -> Unlike:
    return Unlike("wrap", told, first, last)


def _arguments(kind: type, last: dict, others: dict, shown: tuple[str, str]) -> Unlike:
    """Unlike arguments of an optimizer of the class, which is not wrapped."""
    alike = {"kind": kind, "is_plain": True}
    told = {"arguments": last, **alike}
    return Unlike("wrap", told, *shown, others={"arguments": others, **alike})


class Betas(SGD):
    """An optimizer whose configuration has an array."""

    def __init__(self, betas, **kwargs):
        super().__init__(**kwargs)
        self.betas = betas

    def get_config(self):
        return {**super().get_config(), "betas": self.betas}


# By setting, and what is unlike in it where there are several cases.
UNLIKE = {
    "epochs": Unlike("fit", {"epochs": 3}, "2", "3"),
    "steps_per_epoch": Unlike("fit", {"steps_per_epoch": 1}, "none", "1"),
    "shuffle": Unlike("fit", {"shuffle": False}, "True", "False"),
    "validation": Unlike("fit", {"validation_data": examples(8)}, "none", "validation_data"),
    "validation (of a split)": Unlike("fit", {"validation_split": 0.25}, "none", "0.25 of x"),
    "validation_freq": Unlike("fit", {"validation_freq": 2}, "1", "2"),
    "validation_steps": Unlike(
        *("fit", {"validation_data": examples(8), "validation_steps": 2}, "1", "2"),
        {"validation_data": examples(8), "validation_steps": 1},
    ),
    "tf_adasum callbacks": Unlike(
        *("fit", {"callbacks": [LearningRateWarmup(0.1, num_steps=2)]}),
        *("none", r"\[LearningRateWarmup\]"),
    ),
    "loss": Unlike("compile", {"loss": MeanAbsoluteError()}, "mse", "MeanAbsoluteError"),
    "metrics": Unlike("compile", {"metrics": ["mae"]}, "none", r"\[mae\]"),
    "weighted_metrics": Unlike("compile", {"weighted_metrics": ["mae"]}, "none", r"\[mae\]"),
    "loss_weights": Unlike("compile", {"loss_weights": [0.5]}, "none", r"\[0.5\]"),
    "betas of the optimizer": _arguments(
        *(Betas, {"betas": np.array([0.5, 0.25])}, {"betas": np.array([0.5, 0.75])}),
        (r"\[0.5, 0.75\]", r"\[0.5, 0.25\]"),
    ),
    "optimizer": _wrap("Adam wrapped by adasum", "SGD wrapped by adasum", kind=SGD),
    "optimizer (wrapped by no one)": _wrap("Adam wrapped by adasum", "Adam", is_plain=True),
    "optimizer (with an exchange of its own)": _wrap(
        *("Adam wrapped by adasum", "CADA"), kind=CADA, is_plain=True
    ),
    "accumulate of the optimizer": _wrap("1", "2", accumulate=2),
    "mode of the optimizer": _wrap("delta", "gradient", mode="gradient"),
    "compression of the optimizer": _wrap("none", "{.*name: top_k.*}", compression=TopK(0.5)),
    "beta_1 of the optimizer": _wrap("0.9", "0.5", arguments={"beta_1": 0.5}),
    "learning_rate of the optimizer": _arguments(
        *(SGD, {"learning_rate": CosineDecay(0.01, 9)}, {"learning_rate": CosineDecay(0.01, 5)}),
        ("{.*decay_steps: 5.*}", "{.*decay_steps: 9.*}"),
    ),
    "freeze_step of the optimizer": _arguments(
        *(OneBitAdam, {"freeze_step": 3}, {"freeze_step": 2}, ("2", "3"))
    ),
    "reductions": Unlike(
        *("strategy", {"reductions": [("bias$", "mean")]}, "none", r"\('bias\$', 'mean'\)")
    ),
    "local_reduction": Unlike("strategy", {"local_reduction": "sum"}, "adasum", "sum"),
    "bucket_bytes": Unlike("strategy", {"bucket_bytes": 1024}, str(25 * 2**20), "1024"),
    "check_every": Unlike("strategy", {"check_every": 5}, "0", "5"),
}


def _fit(**of):
    """Trains a model by what the strategy, wrap, compile and fit are told; returns its history."""
    wrapped = {"kind": keras.optimizers.Adam, "arguments": {}, "is_plain": False}
    wrapped |= of.get("wrap", {})
    kind, arguments, is_plain = (wrapped.pop(each) for each in ("kind", "arguments", "is_plain"))
    x, y = examples(32)
    with strategy(1, **of.get("strategy", {})).scope():
        model = small_model()
        optimizer = kind(**{"learning_rate": 0.01, **arguments})
        if not is_plain:
            optimizer = adasum.wrap(optimizer, **wrapped)
        model.compile(**{"optimizer": optimizer, "loss": "mse", **of.get("compile", {})})
    given = {"epochs": 2, "batch_size": 16, "verbose": 0, **of.get("fit", {})}
    return model.fit(x, y, **given).history


@pytest.mark.parametrize("setting", UNLIKE)
def test_one_rank_that_is_told_something_else(setting):
    unlike = UNLIKE[setting]
    own = {unlike.of: unlike.told if world().rank == LAST else unlike.others or {}}
    if LAST == 0:
        assert np.isfinite(_fit(**own)["loss"]).all()
        return
    said = setting.partition(" (")[0]
    pattern = (
        f"^rank {world().rank}: Expected the same {said} on all ranks when fit "
        f"begins. Received: {unlike.first} on rank 0, {unlike.last} on rank {LAST}. Call compile"
    )
    with pytest.raises(ValueError, match=pattern):
        _fit(**own)


@pytest.mark.parametrize(("first", "last"), [("fit", "evaluate"), ("evaluate", "predict")])
def test_one_rank_that_calls_another_method(first, last):
    with strategy(1).scope():
        model = small_model()
        model.compile(adasum.wrap(SGD(0.01)), "mse")
    x, y = examples(16)
    calls = {
        "fit": lambda: model.fit(x, y, verbose=0),
        "evaluate": lambda: model.evaluate(x, y, verbose=0),
        "predict": lambda: model.predict(x, verbose=0),
    }
    call = calls[last if world().rank == LAST else first]
    if LAST == 0:
        assert call() is not None
        return
    pattern = (
        f"^rank {world().rank}: Expected all ranks to come to the same call of fit, evaluate or "
        f"predict. Received: {first} on rank 0, {last} on rank {LAST}. Call each of them on all"
    )
    with pytest.raises(ValueError, match=pattern):
        call()
    assert len(calls["predict"]()) == 16


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_one_rank_that_looks_at_more_batches(method):
    with strategy(1).scope():
        model = small_model()
        model.compile(adasum.wrap(SGD(0.01)), "mse")
    x, y = examples(16)
    data = {"x": x, "y": y} if method == "evaluate" else {"x": x}
    call = functools.partial(getattr(model, method), **data, batch_size=4, verbose=0)
    if LAST > 0:
        pattern = (
            f"^rank {world().rank}: Expected the same steps on all ranks when {method} begins. "
            f"Received: 1 on rank 0, 2 on rank {LAST}. Call {method} alike"
        )
        with pytest.raises(ValueError, match=pattern):
            call(steps=2 if world().rank == LAST else 1)
    assert np.isfinite(call(steps=2)).all()


def test_all_train_with_the_learning_rate_of_rank_0():
    """A number goes with the weights, at each call: also one that was assigned in between."""
    with strategy(1).scope():
        model = small_model()
        model.compile(adasum.wrap(SGD(0.25 * (1 + world().rank))), "mse")
    for number in (0.25, 0.5):
        model.fit(*examples(16), batch_size=16, verbose=0)
        assert float(model.optimizer.learning_rate) == number
        model.optimizer.learning_rate = 0.5 if world().rank == 0 else 0.75


def test_settings_that_only_look_unlike():
    """Nothing and a list of nothing, names of objects, what is said; after an error as before."""
    if LAST > 0:
        with pytest.raises(ValueError, match="Expected the same epochs"):
            _fit(fit={"epochs": 2 + world().rank})
    is_last = world().rank == LAST
    told = {
        "loss": MeanAbsoluteError(name=f"mae_{world().rank}"),
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


class Unconfigured(SGD):
    def get_config(self):
        raise NotImplementedError


def test_an_optimizer_without_a_configuration():
    assert len(_fit(wrap={"kind": Unconfigured, "is_plain": True})["loss"]) == 2


def test_unlike_names_of_files_are_told(caplog, tmp_path, monkeypatch):
    """As where a name has the time in it: rank 0 alone writes its file."""
    monkeypatch.chdir(tmp_path)
    for name in ("all", f"rank{world().rank}"):
        assert "bcast" not in caplog.text
        logger = keras.callbacks.CSVLogger("log.csv")
        checkpoint = keras.callbacks.ModelCheckpoint(f"{name}.keras")
        assert len(_fit(fit={"callbacks": [logger, checkpoint]})["loss"]) == 2
    line = "ModelCheckpoint of rank 0 writes 'rank0.keras', and that of rank 1 'rank1.keras'. "
    assert caplog.text.count(line) == (world().rank == 0 and world().size > 1)


def test_ranks_with_fewer_callbacks_or_in_another_order_are_not_told(caplog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    best, last = (keras.callbacks.ModelCheckpoint(f"{name}.keras") for name in ("best", "last"))
    is_first = world().rank == 0
    for of_rank0, of_others in (([best, last], [last]), ([best, last], [last, best])):
        assert _fit(fit={"callbacks": of_rank0 if is_first else of_others})
    assert "bcast" not in caplog.text
