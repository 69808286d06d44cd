"""Random layers: every replica draws its own numbers from the same generator state.

The state of a Keras `SeedGenerator` is a mirrored variable, equal on all replicas, so all would
drop the same units. The global replica number is folded into what a replica draws; the state
itself stays equal, is saved and restored as usual, and runs repeat.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(keras.random.SeedGenerator, "next")

# Keras takes seeds modulo 2**31 - 2; a prime larger than that shares no factor with it, so
# different replicas never meet at the same seed.
_STRIDE = 2654435761


def install() -> None:
    """Makes `SeedGenerator.next` depend on the replica."""
    original = keras.random.SeedGenerator.next

    @functools.wraps(original)
    def next_of_replica(self, ordered=True):
        seed = original(self, ordered)
        context = replica_context_with_peers()
        if context is None:
            return seed
        offset = tf.cast(context.replica_id_in_sync_group, seed.dtype) * _STRIDE
        return seed + tf.stack([offset, tf.zeros_like(offset)])

    keras.random.SeedGenerator.next = next_of_replica
