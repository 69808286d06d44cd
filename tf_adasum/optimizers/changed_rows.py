"""Changes of variables whose gradients come as rows, such as embeddings: few of their rows move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values

from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(tf_values, "PerReplica")

_SUM = tf.distribute.ReduceOp.SUM


def come_as_rows(strategy: tf.distribute.Strategy, grads: Sequence) -> list[bool]:
    """Returns whether each gradient is `tf.IndexedSlices` on all local replicas."""
    return [
        all(
            isinstance(of_replica, tf.IndexedSlices)
            for of_replica in strategy.experimental_local_results(grad)
        )
        for grad in grads
    ]


def add_reduced(
    strategy: tf.distribute.Strategy,
    pairs: Sequence[tuple],
    are_minus: Sequence[bool] | None = None,
) -> None:
    """Adds to each variable the reduction of its change, or of the rows that changed.

    Args:
        strategy: the `AdasumStrategy` in force, in cross-replica context.
        pairs: (change, variable), changes per replica: tensors or `tf.IndexedSlices`.
        are_minus: of which tensors the reduction is taken away instead; None: of none.
    """
    if not pairs:
        return
    reduced = strategy.extended.batch_reduce_to(_SUM, list(pairs))
    for (_, variable), change, is_minus in zip(pairs, reduced, are_minus or repeat(False)):
        make = _subtract_change if is_minus else add_change
        strategy.extended.update(variable, make, args=(change,), group=False)


def add_changed_rows(strategy: tf.distribute.Strategy, pairs: Sequence[tuple]) -> None:
    """As `add_reduced` of dense changes, of which the rows that are not zero are exchanged.

    A gradient's rows are not all that move: momenta move others, and so do Adam's moments. Where
    the rows that moved, of all replicas together, are more than half of the variable's, the change
    is exchanged as it is: finding and joining rows would cost more than it spares. All ranks have
    the same count, and decide alike.

    Args:
        strategy: as for `add_reduced`.
        pairs: (change, variable), changes dense and per replica.
    """
    if not pairs:
        return
    moved = [_moved_rows(change) for change, _ in pairs]
    for (change, variable), rows, total in zip(pairs, moved, _totals(strategy, moved)):
        tf.cond(
            2 * total <= variable.shape[0],
            lambda change=change, variable=variable, rows=rows: add_reduced(
                strategy, [(_rows_of(change, rows), variable)]
            ),
            lambda change=change, variable=variable: add_reduced(strategy, [(change, variable)]),
        )


def _moved_rows(change: tf_values.PerReplica) -> list[tf.Tensor]:
    """Indices of the rows that are not all zero, for each local replica."""
    return [
        tf.where(tf.reduce_any(value != 0, axis=tf.range(1, tf.rank(value))))[:, 0]
        for value in change.values
    ]


def _totals(strategy, moved) -> list[tf.Tensor]:
    """How many rows of each variable moved on all replicas of all ranks."""
    counts = tf.stack([tf.add_n([tf.size(r, tf.int64) for r in rows]) for rows in moved])
    communicator = strategy.extended.communicator
    with tf.device("CPU:0"):
        (totals,) = allreduce_replicas([[counts]], "sum", communicator, "count of rows that moved")
    return tf.unstack(totals, num=len(moved))


def _rows_of(change: tf_values.PerReplica, moved: Sequence[tf.Tensor]) -> tf_values.PerReplica:
    return tf_values.PerReplica(
        [
            tf.IndexedSlices(tf.gather(value, rows), rows, tf.shape(value, tf.int64))
            for value, rows in zip(change.values, moved)
        ]
    )


def add_change(variable: tf.Variable, change: tf.Tensor | tf.IndexedSlices) -> None:
    """Adds a change, or rows of it, to one replica's variable."""
    if isinstance(change, tf.IndexedSlices):
        variable.scatter_add(change)
    else:
        variable.assign_add(change)


def _subtract_change(variable: tf.Variable, change: tf.Tensor) -> None:
    variable.assign_sub(change)
