"""The question whether any replica has another batch goes by that name.

The ranks ask it before every batch: it is what they wait in where one of them has stopped. Where
the steps of wrapped optimizers wait for nobody, `fit` does not ask it if the ranks know how many
batches they have: then the one with fewer than others goes on with empty ones until their end.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import input_lib

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of

require_hooks(input_lib, "_calculate_replicas_with_values")

_NAME = "the next batch: how many replicas have data"


def install() -> None:
    """Names the exchange inside `input_lib._calculate_replicas_with_values`."""
    original = input_lib._calculate_replicas_with_values

    @functools.wraps(original)
    def named(strategy, *args, **kwargs):
        extended = strategy.extended
        if not isinstance(extended, HookedExtended):
            return original(strategy, *args, **kwargs)

        def ask():
            with extended.plain_values_are(_NAME):
                return original(strategy, *args, **kwargs)

        if not _is_of_fit_that_waits_for_nobody():
            return ask()
        # Read when the step runs: the next fit may have data whose number is not known.
        return tf.cond(extended.number_is_known, lambda: tf.constant(1, tf.int64), ask)

    input_lib._calculate_replicas_with_values = named


def _is_of_fit_that_waits_for_nobody() -> bool:
    call = calls.current()
    if call is None or call.name != "fit" or call.in_turn:
        return False  # callbacks have data of their own
    wrapped = wrapped_optimizers_of(call.model)
    return bool(wrapped) and not any(each.waits_for_others for each in wrapped)
