"""What an idle replica hands to `all_reduce` does not count.

A synchronized `BatchNormalization` so finds the moments of the rows that there are. The optimizers'
own exchanges are others: they get zeros.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.idle_replicas import zeros_if
from tf_adasum.keras_hooks.replicas import replica_context_with_peers

require_hooks(distribute_lib.ReplicaContext, "all_reduce")

SUM = tf.distribute.ReduceOp.SUM


def install() -> None:
    """Makes sums and means of `ReplicaContext.all_reduce` those of replicas with rows."""
    original = distribute_lib.ReplicaContext.all_reduce

    @functools.wraps(original)
    def all_reduce(self, reduce_op, value, options=None):
        extended = self.strategy.extended
        is_idle = None if replica_context_with_peers() is None else extended.idle.here()
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


def _divided(total, number):
    if total.dtype.is_integer:
        return total // tf.cast(number, total.dtype)
    return total / tf.cast(number, total.dtype)
