"""Ranks that call unlike methods, or whose `fit` was told unlike things, hear of it at once.

Both decide which collectives follow: a rank that evaluates alone, validates, or takes more epochs
than others would wait for them until the limit. An unlike loss would train, and nobody would know.
"""

from __future__ import annotations

import itertools
import numbers
from typing import Any

import keras
import numpy as np
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.gathered import first_unlike, gather_json, in_words_of_two
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.files import unlike_paths
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of
from tf_adasum.keras_hooks.variables import unlike_layers

require_hooks(keras.Model, "get_compile_config")
require_reads(TensorFlowTrainer, "get_compile_config", "_compile_config")

_METHOD = "method"


def install() -> None:
    """Lets ranks compare their calls of `fit`, `evaluate` and `predict` when these begin."""
    calls.at_begin(_compare)


def _compare(call: calls.Call, given: dict[str, Any]) -> None:
    own = {_METHOD: call.name}
    if call.name == "fit":
        own |= {**_of_fit(given), **_of_model(call.model), **unlike_layers.of_layers(call.model)}
    else:
        own["steps"] = _in_words(given.get("steps"))
    # One name, so that unlike methods meet there.
    name = "the next fit, evaluate or predict"
    everybodys = gather_json(own, call.communicator, name)
    # Those of all ranks, so that all find the same one; not every optimizer has all of them.
    for setting in dict.fromkeys(itertools.chain.from_iterable(everybodys)):
        of_ranks = [theirs.get(setting, "none") for theirs in everybodys]
        if setting == unlike_paths.SETTING:
            unlike_paths.tell(of_ranks, call.communicator)
        elif rank := first_unlike(of_ranks):
            received = in_words_of_two(of_ranks[0], of_ranks[rank], rank, call.communicator)
            line = _refusal(call.name, setting, received)
            if unlike_layers.is_of_layers(setting):
                line = unlike_layers.refusal_of(setting, call)
            if line is not None:
                raise ValueError(line)


def _refusal(name: str, setting: str, received: str) -> str:
    if setting == _METHOD:
        expected = "all ranks to come to the same call of fit, evaluate or predict"
        return refusal(expected, received, "Call each of them on all ranks, or on none.")
    expected = f"the same {setting} on all ranks when {name} begins"
    made_by = "compile and fit" if name == "fit" else name
    return refusal(expected, received, f"Call {made_by} alike on all ranks.")


def _of_fit(given: dict[str, Any]) -> dict[str, str]:
    split = given.get("validation_split")
    has_data = given.get("validation_data") is not None
    return {
        "epochs": str(given.get("epochs", 1)),
        # A rank that takes more steps than others waits for them behind their last one.
        "steps_per_epoch": _in_words(given.get("steps_per_epoch")),
        "shuffle": str(given.get("shuffle", True)),
        "validation": "validation_data" if has_data else f"{split:g} of x" if split else "none",
        "validation_freq": str(given.get("validation_freq", 1)),
        "validation_steps": _in_words(given.get("validation_steps")),
        "tf_adasum callbacks": _in_words(_of_all_ranks(_flat(given.get("callbacks")))),
        unlike_paths.SETTING: unlike_paths.of_callbacks(_flat(given.get("callbacks"))),
    }


def _flat(callbacks: Any) -> list:
    listed = getattr(callbacks, "callbacks", callbacks)
    return list(listed) if isinstance(listed, (list, tuple)) else [listed]


def _of_all_ranks(callbacks: list) -> list[str]:
    """Those among them that exchange something, or set what must be equal; others may be unlike."""
    names = [type(each).__name__ for each in callbacks if hasattr(each, "belongs_to_all_ranks")]
    return sorted(names)


def _of_model(model: keras.Model) -> dict[str, str]:
    # A model with a compile() of its own may have none.
    compiled = getattr(getattr(model, "_compile_config", None), "config", {})
    lists = ("loss", "loss_weights", "metrics", "weighted_metrics")
    strategy = model.distribute_strategy
    return {
        "reductions": str(strategy.reduction_policy),
        **{name: str(value) for name, value in strategy.extended.settings.items()},
        "check_every": str(strategy.divergence_check.check_every),
        **_of_optimizers(optimizers_of(model)),
        **{name: _in_words(compiled.get(name)) for name in lists},
    }


def _of_optimizers(optimizers: list[keras.optimizers.Optimizer]) -> dict[str, str]:
    told = {"optimizer": ", ".join(map(_class_of, optimizers))}
    for place, optimizer in enumerate(optimizers, 1):
        which = f"optimizer {place}" if len(optimizers) > 1 else "the optimizer"
        settings = _configuration(optimizer).items()
        told |= {f"{setting} of {which}": _in_words(value) for setting, value in settings}
    return told


def _class_of(optimizer: keras.optimizers.Optimizer) -> str:
    # wrap's lie above this layer.
    if not hasattr(optimizer, "adasum_settings"):
        return type(optimizer).__name__
    return f"{optimizer.adasum_settings()['class_name']} wrapped by adasum"


def _configuration(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    """Its arguments and wrap's; but a learning rate that is a variable goes by equal weights."""
    try:
        configuration = dict(optimizer.get_config())
    except Exception:
        return {}  # a class of the user's, which only saving would ask for it
    configuration |= configuration.pop("adasum", {})
    if not isinstance(configuration.get("learning_rate"), dict):
        configuration.pop("learning_rate", None)
    # What a rank numbers by what it made before, and the class, which is compared by itself.
    for each in ("name", "class_name", "module", "registered_name"):
        configuration.pop(each, None)
    return configuration


def _in_words(value: Any) -> str:
    """Classes and functions by name: objects number themselves by what a rank made before."""
    if isinstance(value, np.ndarray):
        return _in_words(value.tolist())
    if value is None or (isinstance(value, (dict, list, tuple)) and not value):
        return "none"
    if isinstance(value, dict):
        # Keras goes by the keys: their order says nothing.
        pairs = sorted(f"{key}: {_in_words(each)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_in_words, value)) + "]"
    if isinstance(value, (str, bool, numbers.Number)):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)
