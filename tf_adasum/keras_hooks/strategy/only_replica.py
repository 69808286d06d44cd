"""The context of a process's only replica, which runs in the calling thread."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, distribute_utils
from typing_extensions import override

from tf_adasum.keras_hooks.core.branches import error_in_branches
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.strategy.values_of_each import values_of_each

require_hooks(distribute_lib.ReplicaContext, "_merge_call")
require_hooks(distribute_utils, "regroup", "select_replica")


class OnlyReplicaContext(distribute_lib.ReplicaContext):
    """The context of a process's only replica.

    Without threads, `merge_call` also works inside `tf.cond`, which gradient accumulation
    and the overwriting by an exponential moving average need.

    Args:
        strategy: of the replica.
        replica_id: its number among those of all ranks.
        fn: what the replica runs.
    """

    def __init__(self, strategy: tf.distribute.Strategy, replica_id: int, fn: Any):
        super().__init__(strategy, replica_id)
        # TensorFlow turns the run of a tf.function into a tf.function around the run.
        is_graph = isinstance(fn, tf.types.experimental.GenericFunction)
        self._graph = None if is_graph else tf.compat.v1.get_default_graph()

    @override
    def _merge_call(self, fn, args, kwargs):
        extended = self.strategy.extended
        is_inside = self._graph not in (None, tf.compat.v1.get_default_graph())
        if extended.numbers.are_unlike and is_inside:
            # As on the ranks with several, or they would fail while this one goes on.
            raise error_in_branches()
        args = values_of_each(distribute_utils.regroup((tuple(args),)), extended)
        kwargs = values_of_each(distribute_utils.regroup((kwargs,)), extended)
        return distribute_utils.select_replica(0, super()._merge_call(fn, args, kwargs))
