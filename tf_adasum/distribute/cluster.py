"""What TensorFlow's multi-worker scripts ask a strategy: which worker this is, of how many."""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator


def resolver_of(communicator: Communicator) -> tf.distribute.cluster_resolver.SimpleClusterResolver:
    """Returns a resolver of the group's ranks, as workers; `task_id` is the rank in the group.

    Names stand for the addresses, which nobody dials: ranks meet through MPI.
    """
    workers = [f"rank{number}" for number in communicator.world_ranks]
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": workers}), task_type="worker", task_id=communicator.rank
    )
