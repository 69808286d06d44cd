"""Tells a hook whether it runs in a replica of an AdasumStrategy that has peers."""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.keras_hooks.hooked_extended import HookedExtended


def replica_context_with_peers() -> tf.distribute.ReplicaContext | None:
    """Returns the replica context of an AdasumStrategy with N > 1 replicas, else None."""
    context = tf.distribute.get_replica_context()
    if context is None or not isinstance(context.strategy.extended, HookedExtended):
        return None
    return context if context.num_replicas_in_sync > 1 else None
