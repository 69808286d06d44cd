"""A layer that takes time: ranks that are late need no core for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import keras
import tensorflow as tf


class Late(keras.layers.Layer):
    """Passes rows on, after the time that a step takes.

    Args:
        seconds: returns the time of a training step, by its number and its rows.
    """

    def __init__(self, seconds: Callable[[int, int], float]):
        super().__init__()
        self._seconds = seconds
        self._steps = itertools.count()

    def call(self, x, training=False):
        """Returns x."""
        if not training:
            return x
        late = tf.numpy_function(self._sleep, [x], x.dtype)
        late.set_shape(x.shape)
        return late

    def compute_output_shape(self, shape):
        """That of the input."""
        return shape

    def _sleep(self, x):
        time.sleep(self._seconds(next(self._steps), len(x)))
        return x
