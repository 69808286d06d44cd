"""Loss scaling: all replicas skip a step together, or none does.

Keras decides whether the gradients are finite from one local replica. With an overflow on one
rank only, that rank would skip the exchange its peers are waiting in.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import local_replica, replica_context_with_peers

require_hooks(keras.optimizers.LossScaleOptimizer, "check_finite")


def install() -> None:
    """Makes `LossScaleOptimizer.check_finite` the same on all replicas of all ranks."""
    original = keras.optimizers.LossScaleOptimizer.check_finite

    @functools.wraps(original)
    def check_finite_everywhere(self, grads):
        finite = original(self, grads)
        context = replica_context_with_peers()
        if context is None:
            return finite
        share = context.strategy.extended.batch_share
        if share is not None:
            share.computed(grads)  # what follows waits for the other ranks
        num_broken = context.all_reduce(
            tf.distribute.ReduceOp.SUM, tf.cast(tf.logical_not(finite), tf.int32)
        )
        are_finite = tf.equal(num_broken, 0)
        if share is not None:
            share.leave_out(local_replica(context), tf.logical_not(are_finite))
        return are_finite

    keras.optimizers.LossScaleOptimizer.check_finite = check_finite_everywhere
