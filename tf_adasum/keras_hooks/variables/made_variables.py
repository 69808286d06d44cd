"""Tells a strategy which Keras variables are made in its scope, by their paths.

Its rules are checked when the first optimizer steps. By then a rule may be for the second network
of a pair, or for a backbone that is frozen as yet: its variables exist, but no optimizer has them.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(keras.Variable, "__init__", "path", "trainable")


def install() -> None:
    """Lets `keras.Variable` tell what is made of it, metrics and slots excepted."""
    original = keras.Variable.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        extended = tf.distribute.get_strategy().extended
        # What is frozen is frozen later: a layer's weights are made to be trained.
        if isinstance(extended, HookedExtended) and self.trainable and self.shape is not None:
            extended.see_variable(self.path, tuple(self.shape), self.dtype)

    keras.Variable.__init__ = init
