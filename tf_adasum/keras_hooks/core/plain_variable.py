"""A variable of this process alone: no strategy mirrors it, and no rank hears of it."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(resource_variable_ops, "ResourceVariable")


def make_plain_zeros(shape: Sequence[int], dtype: str = "float64") -> tf.Variable:
    """Returns a variable of zeros in host memory, made outside of any function or strategy.

    `tf.Variable` asks the strategy in force, which would make one for each replica and broadcast
    its value.

    Args:
        shape: of the variable.
        dtype: of the variable.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        zeros = tf.zeros(shape, dtype)
        return resource_variable_ops.ResourceVariable(zeros, trainable=False)
