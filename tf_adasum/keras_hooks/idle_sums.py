"""What an idle replica hands to `all_reduce` and `all_gather` does not count.

A synchronized `BatchNormalization` so finds the moments of the rows that there are, and a loss over
the embeddings of all replicas no embedding of a row of zeros. The optimizers' own exchanges are
others: they get zeros.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.idle_replicas import zeros_if
from tf_adasum.keras_hooks.replicas import replica_context_with_peers

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
        zeros = zeros_if(is_idle, tf.nest.flatten(value))
        total = original(self, SUM, zeros, options)
        if reduce_op not in (SUM, "SUM", "sum"):
            # A mean as a sum and a division, whose gradients are right as well.
            own = tf.cast(tf.logical_not(is_idle), tf.int32)
            number = tf.maximum(original(self, SUM, own), 1)
            total = [_divided(each, number) for each in total]
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
    rank = getattr(getattr(value, "shape", None), "rank", None)
    if not rank or isinstance(value, (tf.IndexedSlices, tf.RaggedTensor, tf.SparseTensor)):
        return value
    lengths = tf.shape(value)
    along = [each == axis % rank for each in range(rank)]
    part = tf.slice(value, [0] * rank, tf.where(is_idle & along, 0, lengths))
    part.set_shape([None if here else n for n, here in zip(value.shape, along)])
    return part


def _divided(total, number):
    if total.dtype.is_integer:  # the mean of 1 and 2 is 1.5
        return tf.cast(total, tf.float64) / tf.cast(number, tf.float64)
    return total / tf.cast(number, total.dtype)
