"""Batches that hold scalars, such as a factor beside the rows: TensorFlow can't deal these.

It cuts each part of a batch by its first dimension, and a scalar has none. So rows are cut here,
where TensorFlow would cut them, and each replica gets the scalars as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.distribute.shared_batches import between
from tf_adasum.keras_hooks.idle.empty_batches import num_rows


def holds_scalars(dataset: tf.data.Dataset) -> bool:
    """Whether a part of each batch is known to be a scalar.

    Not of single examples, which nobody has batched: their targets would be all scalars.
    """
    spec = dataset.element_spec
    if type(spec) is tuple and len(spec) > 1 and holds_rows(spec[0]) and not holds_rows(spec[1]):
        return False
    return 0 in _ranks(spec)


def holds_rows(spec: Any) -> bool:
    """Whether a part of each batch, whose element_spec or part of it is given, is no scalar."""
    return any(rank != 0 for rank in _ranks(spec))


def _ranks(spec: Any) -> list[int | None]:
    shapes = [getattr(each, "shape", None) for each in tf.nest.flatten(spec)]
    return [tf.TensorShape(shape).rank for shape in shapes]


def parts_of_batches(dataset: tf.data.Dataset, number: int, own: Sequence[int]) -> tf.data.Dataset:
    """Returns some parts of each batch, one behind the other; not to be sharded.

    As TensorFlow deals n rows, a part has n / number of them, rounded up, and the last ones have
    what is left. All parts have the scalars.

    Args:
        dataset: batches.
        number: of parts of each batch.
        own: which of them are returned.
    """
    is_unpacked = type(dataset.element_spec) is tuple

    def own_parts(*batch):
        whole = batch if is_unpacked else batch[0]
        indices = tf.data.Dataset.from_tensor_slices(tf.constant(list(own), tf.int64))
        return indices.map(lambda index: _part(whole, index, number))

    parts = dataset.flat_map(own_parts)
    # Keras takes the number of elements for that of the batches, where it is one part of each.
    length = tf.get_static_value(dataset.cardinality())
    is_same = length == tf.data.INFINITE_CARDINALITY or (length is not None and len(own) == 1)
    if is_same and length != tf.data.UNKNOWN_CARDINALITY:
        parts = parts.apply(tf.data.experimental.assert_cardinality(length))
    return parts.prefetch(len(own))


def _part(batch: Any, index: tf.Tensor, number: int) -> Any:
    def cut(leaf):
        if leaf is None or leaf.shape.rank == 0:
            return leaf
        rows = num_rows(leaf)
        rows = tf.cast(tf.shape(leaf)[0] if rows is None else rows, tf.int64)
        size = (rows + number - 1) // number
        begin = tf.minimum(index * size, rows)
        return between(leaf, begin, tf.minimum(begin + size, rows))

    return tf.nest.map_structure(cut, batch)
