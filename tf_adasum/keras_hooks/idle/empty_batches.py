"""Steps of Keras on a batch without a row: the replica is idle, and computes on a row of zeros.

The last batch may have fewer rows than there are replicas, or a rank less data than others. Means
over no row are NaN, in `BatchNormalization` and losses, and TensorFlow's convolutions on the CPU
fail. The replica must take part in whatever its peers exchange, so that it can't leave out the
step; `idle_gradients`, `idle_assignments` and `idle_sums` leave out what comes of it.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.around_steps import run_steps_by
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import local_replica, replica_context_with_peers

require_hooks(TensorFlowTrainer, "_autoconvert_optionals")


def install() -> None:
    """Lets the steps of `TensorFlowTrainer` look at the length of their batch."""
    run_steps_by(_stand_in_for_rows)
    _cut_predictions()


def _stand_in_for_rows(model, step_function, data):
    is_idle = _is_idle(data)
    if is_idle is None:
        return step_function(data)
    context = tf.distribute.get_replica_context()
    idle = context.strategy.extended.idle
    with idle.step(local_replica(context), is_idle):
        return step_function(_or_row(is_idle, data))


def _cut_predictions() -> None:
    """Keras hands `_autoconvert_optionals` what each replica does in `predict`."""
    original = TensorFlowTrainer._autoconvert_optionals

    @functools.wraps(original)
    def autoconvert(self, step_function):
        converted = original(self, step_function)

        @functools.wraps(converted)
        def step(data):
            is_idle = _is_idle(data)
            # Predictions exchange nothing: a replica with rows need not take the idle one's way.
            if is_idle is None or (tf.executing_eagerly() and not is_idle):
                return converted(data)
            outputs = converted(_or_row(is_idle, data))
            return tf.nest.map_structure(functools.partial(_none_if, is_idle), outputs)

        return step

    TensorFlowTrainer._autoconvert_optionals = autoconvert


def _is_idle(data: Any) -> tf.Tensor | None:
    """Whether a replica's batch has no row; None where it must have, and outside of replicas."""
    rows = None if replica_context_with_peers() is None else num_rows(data)
    # Step by step in Python the length is known everywhere, and may be 0 on another replica: all
    # must take the same way.
    is_known = isinstance(rows, int) and not tf.executing_eagerly()
    if rows is None or (is_known and rows > 0):
        return None
    return tf.equal(rows, 0)


def _or_row(is_idle: tf.Tensor, data: Any) -> Any:
    return tf.cond(is_idle, lambda: row_like(data), lambda: data)


def _none_if(is_idle: tf.Tensor, output):
    """The output, without its rows if the replica is idle."""
    if not output.shape.rank:
        return output
    rows = tf.cast(num_rows(output), tf.int64)
    number = tf.where(is_idle, tf.zeros_like(rows), rows)
    if isinstance(output, tf.SparseTensor):
        shape = tf.concat([[number], output.dense_shape[1:]], axis=0)
        return tf.sparse.slice(output, tf.zeros_like(shape), shape)
    return output[:number]


def num_rows(data: Any) -> int | tf.Tensor | None:
    """The length of a batch: a number where it is known, a tensor, or None if nothing has one.

    Args:
        data: nested tensors, arrays, ragged or sparse tensors; the first with a dimension decides.
    """
    for leaf in tf.nest.flatten(data):
        shape = getattr(leaf, "shape", None)
        rank = None if shape is None else tf.TensorShape(shape).rank
        if not rank:
            continue
        if shape[0] is not None:
            return int(shape[0])
        if isinstance(leaf, tf.RaggedTensor):
            return leaf.nrows()
        if isinstance(leaf, tf.SparseTensor):
            return leaf.dense_shape[0]
        return tf.shape(leaf)[0]
    return None


def row_like(data: Any) -> Any:
    """A batch of one row, of zeros or empty strings, for a batch without rows."""
    return tf.nest.map_structure(_row_like, data)


def _row_like(leaf):
    if leaf is None:
        return None
    if isinstance(leaf, tf.RaggedTensor):
        splits = [tf.zeros([1], leaf.row_splits.dtype) for _ in leaf.nested_row_splits]
        splits[0] = tf.zeros([2], leaf.row_splits.dtype)
        flat = leaf.flat_values[:0]
        return tf.RaggedTensor.from_nested_row_splits(flat, splits, validate=False)
    if isinstance(leaf, tf.SparseTensor):
        shape = tf.maximum(leaf.dense_shape, 1)
        return tf.SparseTensor(leaf.indices[:0], leaf.values[:0], shape)
    leaf = tf.convert_to_tensor(leaf)
    if leaf.shape.rank == 0:  # every replica has the same
        return leaf
    # TensorFlow gives dimensions that it does not know no length either.
    row = tf.zeros(tf.maximum(tf.shape(leaf), 1), leaf.dtype)
    if leaf.shape.rank is not None:
        row.set_shape([None, *leaf.shape[1:]])
    return row
