"""What an idle replica hands to `all_reduce` and `all_gather` does not count.

A synchronized `BatchNormalization` so finds the moments of the rows that there are, and a loss over
the embeddings of all replicas no embedding of a row of zeros. The optimizers' own exchanges are
others: they get zeros.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from tf_adasum.collectives.whole_numbers import is_whole, quotient, summand
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.idle_replicas import zeros_if
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(distribute_lib.ReplicaContext, "all_reduce", "all_gather")

SUM = tf.distribute.ReduceOp.SUM


def install() -> None:
    """Makes what a `ReplicaContext` reduces and gathers that of replicas with rows."""
    _install_all_reduce()
    _install_all_gather()


def _install_all_reduce() -> None:
    original = distribute_lib.ReplicaContext.all_reduce

    @functools.wraps(original)
    def all_reduce(self, reduce_op, value, options=None):
        is_idle = _is_idle(self)
        if is_idle is None:
            return original(self, reduce_op, value, options)
        parts = tf.nest.flatten(value)
        is_mean = reduce_op not in (SUM, "SUM", "sum")
        if is_mean:
            parts = [_summand(part) for part in parts]
        total = original(self, SUM, zeros_if(is_idle, parts), options)
        if is_mean:
            # A mean as a sum and a division, whose gradients are right as well.
            own = tf.cast(tf.logical_not(is_idle), tf.int32)
            number = tf.maximum(original(self, SUM, own), 1)
            total = [_mean(part, each, number) for part, each in zip(tf.nest.flatten(value), total)]
        return tf.nest.pack_sequence_as(value, total)

    distribute_lib.ReplicaContext.all_reduce = all_reduce


def _install_all_gather() -> None:
    original = distribute_lib.ReplicaContext.all_gather

    @functools.wraps(original)
    def all_gather(self, value, axis, options=None):
        is_idle = _is_idle(self)
        if is_idle is not None:
            known = int(tf.get_static_value(tf.convert_to_tensor(axis)))
            value = tf.nest.map_structure(functools.partial(_nothing_if, is_idle, known), value)
        return original(self, value, axis, options)

    distribute_lib.ReplicaContext.all_gather = all_gather


def _is_idle(context) -> tf.Tensor | None:
    return None if replica_context_with_peers() is None else context.strategy.extended.idle.here()


def _nothing_if(is_idle: tf.Tensor, axis: int, value):
    """Returns the value, or its first 0 entries along the axis; what can't be gathered as it is."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, (tf.IndexedSlices, tf.RaggedTensor, tf.SparseTensor)):
        return value
    shape = tf.TensorShape(shape)
    if shape.rank == 0:
        return value
    lengths = tf.shape(value)
    along = tf.range(tf.size(lengths)) == axis % (shape.rank or tf.size(lengths))
    part = tf.slice(value, tf.zeros_like(lengths), tf.where(is_idle & along, 0, lengths))
    if shape.rank is not None:  # not what tf.py_function returns
        part.set_shape([None if n == axis % shape.rank else each for n, each in enumerate(shape)])
    return part


def _summand(part):
    """What is added up of a value whose mean is asked for; of bools, which are not true."""
    if is_whole(part):
        return summand(part)
    part = tf.convert_to_tensor(part)
    return tf.logical_not(part) if part.dtype == tf.bool else part


def _mean(part, total: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    if is_whole(part):
        return quotient(total, number)
    # The mean of bools is whether all are true.
    return tf.logical_not(total) if total.dtype == tf.bool else total / tf.cast(number, total.dtype)
