"""Means of whole numbers as TensorFlow's strategies have them: that of 1 and 2 is 1.5.

An exchange's own mean of whole numbers is a whole number. These are added up, and divided here.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def is_whole(value: Any) -> bool:
    """Whether it is made of integers: a tensor, a variable, rows, or a number."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        dtype = tf.convert_to_tensor(value).dtype
    return tf.as_dtype(dtype).is_integer


def summand(value: Any) -> tf.Tensor:
    """Returns whole numbers as they are added up, without overflow where a sum has 63 bits."""
    tensor = tf.convert_to_tensor(value)
    return tf.cast(tensor, tf.float64 if tensor.dtype == tf.uint64 else tf.int64)


def quotient(total: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """Returns the mean of `number` summands: a float64."""
    return tf.cast(total, tf.float64) / tf.cast(number, tf.float64)
