"""A scope of one strategy inside of another one's is refused in a sentence that says what to do.

Keras opens the scope that a model was made in itself, in `compile` and `fit`.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(distribute_lib, "StrategyBase")
require_hooks(distribute_lib.StrategyBase, "scope", "extended")


def install() -> None:
    """Lets `scope()` of any strategy look at the one in force, if one of the two is ours."""
    original = distribute_lib.StrategyBase.scope

    @functools.wraps(original)
    def scope(self):
        if tf.distribute.has_strategy():
            _check_same(self, tf.distribute.get_strategy())
        return original(self)

    distribute_lib.StrategyBase.scope = scope


def _check_same(opened: tf.distribute.Strategy, in_force: tf.distribute.Strategy) -> None:
    is_ours = any(isinstance(each.extended, HookedExtended) for each in (opened, in_force))
    if not is_ours or opened is in_force:
        return
    names = [type(each).__name__ for each in (opened, in_force)]
    another = "another " if names[0] == names[1] else ""
    received = f"the scope of {another}{names[0]} inside of that of {names[1]}"
    advice = (
        "Create one AdasumStrategy, and make and compile the model inside its scope() alone: "
        "Keras opens the scope of a model itself."
    )
    raise RuntimeError(refusal("one strategy for a model and its optimizer", received, advice))
