"""Ranks whose `fit` was told unlike things hear of it before the first batch.

Settings decide which collectives follow: ranks that validate, or take more epochs, than others
would wait for them until the limit. An unlike loss would train, and nobody would know.
"""

from __future__ import annotations

import json
from typing import Any

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.gathered import first_unlike, gather_bytes
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks import calls
from tf_adasum.keras_hooks.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.model_optimizers import optimizers_of

require_hooks(keras.Model, "get_compile_config")
require_reads(TensorFlowTrainer.get_compile_config, "_compile_config")


def install() -> None:
    """Lets ranks compare what `fit` and `compile` were given when `fit` begins."""
    calls.at_begin("fit", _compare)


def _compare(call: calls.Call, given: dict[str, Any]) -> None:
    own = {**_of_fit(given), **_of_model(call.model)}
    told = gather_bytes(json.dumps(own).encode(), call.communicator, "settings of fit")
    everybodys = [json.loads(each) for each in told]
    for setting in own:
        of_ranks = [theirs[setting] for theirs in everybodys]
        if rank := first_unlike(of_ranks):
            expected = f"the same {setting} on all ranks when fit begins"
            received = f"{of_ranks[0]} on rank 0, {of_ranks[rank]} on rank {rank}"
            advice = "Call compile and fit alike on all ranks."
            raise ValueError(refusal(expected, received, advice))


def _of_fit(given: dict[str, Any]) -> dict[str, str]:
    split = given.get("validation_split")
    has_data = given.get("validation_data") is not None
    return {
        "epochs": str(given.get("epochs", 1)),
        "shuffle": str(given.get("shuffle", True)),
        "validation": "validation_data" if has_data else f"{split:g} of x" if split else "none",
        "validation_freq": str(given.get("validation_freq", 1)),
    }


def _of_model(model: keras.Model) -> dict[str, str]:
    # A model with a compile() of its own may have none.
    compiled = getattr(getattr(model, "_compile_config", None), "config", {})
    lists = ("loss", "metrics", "weighted_metrics")
    strategy = model.distribute_strategy
    return {
        "reductions": str(strategy.reduction_policy),
        "check_every": str(strategy.divergence_check.check_every),
        "optimizer": ", ".join(map(_optimizer_in_words, optimizers_of(model))),
        **{name: _in_words(compiled.get(name)) for name in lists},
    }


def _optimizer_in_words(optimizer: keras.optimizers.Optimizer) -> str:
    # wrap's have settings, which lie above this layer.
    if not hasattr(optimizer, "adasum_settings"):
        return type(optimizer).__name__
    settings = dict(optimizer.adasum_settings())
    name = settings.pop("class_name")
    return f"{name} wrapped with {', '.join(f'{key}={value}' for key, value in settings.items())}"


def _in_words(value: Any) -> str:
    """Classes and functions by name: objects number themselves by what a rank made before."""
    if value in (None, [], (), {}):
        return "none"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_in_words(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_in_words, value)) + "]"
    if isinstance(value, str):
        return value
    return getattr(value, "__name__", type(value).__name__)
