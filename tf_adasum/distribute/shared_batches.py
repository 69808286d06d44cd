"""A rank's rows of each batch of a `tf.data` pipeline, where ranks take unlike numbers of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_adasum.keras_hooks.idle.empty_batches import num_rows


def rows_of_share(dataset: tf.data.Dataset, shares: tf.Variable, rank: int) -> tf.data.Dataset:
    """Returns the same data, of which this rank takes its part of each batch; not to be sharded.

    Of n rows rank r takes those from n S_r to n S_(r + 1), rounded, where S_r is the sum of the
    shares before it over the sum of all: every row goes to one rank.

    Args:
        dataset: batches, the same on all ranks.
        shares: float64 [P], read when an iterator yields its first batch: it keeps them.
        rank: whose rows.
    """

    def own_bounds(_):
        ends = tf.cumsum(shares.read_value())
        bounds = tf.concat([tf.zeros([1], tf.float64), ends / ends[-1]], axis=0)
        return tf.data.Dataset.from_tensors(bounds[rank : rank + 2]).repeat()

    once = tf.data.Dataset.from_tensors(0).flat_map(own_bounds)
    pairs = tf.data.Dataset.zip(dataset, once)
    own = pairs.map(_own_rows, tf.data.AUTOTUNE, deterministic=True)
    # What hides the number of batches makes TensorFlow ask all ranks at each whether there is one.
    number = dataset.cardinality()
    if number == tf.data.UNKNOWN_CARDINALITY:
        return own
    return own.apply(tf.data.experimental.assert_cardinality(number))


def _own_rows(batch: Any, bounds: tf.Tensor) -> Any:
    leaves = tf.nest.flatten(batch)
    total = num_rows(batch)
    if total is None:  # of leaves of unknown rank, if there are such
        unknown = [leaf for leaf in leaves if leaf.shape.rank is None]
        if not unknown:
            return batch
        total = tf.shape(unknown[0])[0]
    ends = tf.cast(tf.round(tf.cast(total, tf.float64) * bounds), tf.int64)
    return tf.nest.map_structure(lambda leaf: between(leaf, ends[0], ends[1]), batch)


def between(leaf: Any, begin: tf.Tensor, end: tf.Tensor) -> Any:
    """Some rows of a part of a batch; a scalar as it is."""
    if isinstance(leaf, tf.SparseTensor):
        shape = leaf.dense_shape
        start = tf.concat([[begin], tf.zeros_like(shape[1:])], axis=0)
        return tf.sparse.slice(leaf, start, tf.concat([[end - begin], shape[1:]], axis=0))
    return leaf if leaf.shape.rank == 0 else leaf[begin:end]
