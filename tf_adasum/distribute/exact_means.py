"""Means of whole numbers as TensorFlow's own strategies have them: that of 1 and 2 is 1.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values


def is_whole(value: Any) -> bool:
    """Whether it is made of integers: a tensor, a variable, rows, or a number."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        dtype = tf.convert_to_tensor(value).dtype
    return tf.as_dtype(dtype).is_integer


def reduced(
    per_replica_values: Sequence[Any],
    reduction: str,
    number: int,
    reduce: Callable[[Sequence[Any], str], list[tf.Tensor]],
) -> list[tf.Tensor]:
    """Reduces values of replicas; where a mean is asked for, whole numbers are added and divided.

    Args:
        per_replica_values: each with `values`, one of each local replica.
        reduction: of all of them.
        number: of all replicas.
        reduce: exchanges values by a reduction; the mean of its whole numbers is a whole number.

    Returns:
        A tensor for each value; of a mean of whole numbers a float64.
    """
    is_sum = [reduction == "mean" and is_whole(value.values[0]) for value in per_replica_values]
    results: list[Any] = [None] * len(per_replica_values)
    for adds in sorted(set(is_sum)):
        indices = [index for index, each in enumerate(is_sum) if each == adds]
        part = [per_replica_values[index] for index in indices]
        if adds:
            part = [tf_values.PerReplica([_as_int64(e) for e in value.values]) for value in part]
        for index, result in zip(indices, reduce(part, "sum" if adds else reduction)):
            results[index] = result / number if adds else result
    return results


def _as_int64(value: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(value), tf.int64)
