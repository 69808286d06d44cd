"""An optimizer from outside of the scope is refused in a sentence that says what to do.

Its slots would be made where TensorFlow only says that two strategies are mixed.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(TFOptimizer, "add_variable_from_reference")


def install() -> None:
    """Lets `TFOptimizer.add_variable_from_reference` look at the strategy in force."""
    original = TFOptimizer.add_variable_from_reference

    @functools.wraps(original)
    def add_in_scope(self, *args, **kwargs):
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy.extended, HookedExtended):
            strategy.check_made_here(self)
        return original(self, *args, **kwargs)

    TFOptimizer.add_variable_from_reference = add_in_scope
