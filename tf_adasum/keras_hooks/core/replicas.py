"""Tells a hook whether it runs in a replica of an AdasumStrategy that has peers."""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.keras_hooks.core.guard import require_reads
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_reads(tf.distribute.ReplicaContext, "__init__", "_replica_id_in_sync_group")


def local_replica(context: tf.distribute.ReplicaContext) -> int:
    """Returns the number of a context's replica among those of its process."""
    # Not the property, which makes a tensor in the graph each time that it is read.
    number = int(tf.get_static_value(context._replica_id_in_sync_group))
    return context.strategy.extended._get_local_replica_id(number)


def replica_context_with_peers() -> tf.distribute.ReplicaContext | None:
    """Returns the replica context of an AdasumStrategy with N > 1 replicas, else None."""
    context = tf.distribute.get_replica_context()
    if context is None or not isinstance(context.strategy.extended, HookedExtended):
        return None
    return context if context.num_replicas_in_sync > 1 else None
