"""Random operations of TensorFlow: every replica draws its own numbers, in models and own steps.

All ranks have one TensorFlow seed, so that they shuffle their data alike, and so `tf.random.normal`
and its like would draw the same on every rank. What such an operation gets for its seed has the
global replica number folded in; input pipelines get theirs outside of replicas, as before.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.framework import random_seed

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(random_seed, "get_seed")

# TensorFlow's seeds are below 2**31 - 1. Multiples of this, the golden section of that, keep far
# apart: replicas meet at no seed where operations are numbered by their order.
_MODULUS = 2**31 - 1
_STRIDE = 1327217884


def install() -> None:
    """Makes the seeds of operations depend on the replica."""
    original = random_seed.get_seed

    @functools.wraps(original)
    def get_seed_of_replica(op_seed):
        seeds = original(op_seed)
        context = replica_context_with_peers()
        if context is None or seeds == (None, None):
            return seeds
        replica = tf.get_static_value(context.replica_id_in_sync_group)
        folded = (seeds[1] + int(replica) * _STRIDE) % _MODULUS
        # TensorFlow takes two zeros for no seed.
        return (seeds[0], folded) if (seeds[0], folded) != (0, 0) else (0, _MODULUS)

    random_seed.get_seed = get_seed_of_replica
