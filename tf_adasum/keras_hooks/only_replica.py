"""A process's only replica, and what replicas hand on where ranks have unlike numbers of them."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, distribute_utils, mirrored_run
from tensorflow.python.distribute import values as tf_values
from tensorflow.python.framework import composite_tensor, ops
from typing_extensions import override

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(distribute_lib.ReplicaContext, "_merge_call")
require_hooks(mirrored_run._MirroredReplicaContext, "_merge_call")
require_hooks(distribute_utils, "regroup", "select_replica")
require_hooks(tf_values, "DistributedValues", "PerReplica")
require_hooks(composite_tensor, "CompositeTensor")
require_hooks(ops, "get_default_graph")


def install() -> None:
    """Lets replicas in threads, too, hand on values of each where ranks have unlike numbers."""
    original = mirrored_run._MirroredReplicaContext._merge_call

    @functools.wraps(original)
    def merge(self, fn, args, kwargs):
        extended = self.strategy.extended
        if isinstance(extended, HookedExtended) and extended.numbers.are_unlike:
            fn = _with_values_of_each(fn, extended)
        return original(self, fn, args, kwargs)

    mirrored_run._MirroredReplicaContext._merge_call = merge


class OnlyReplicaContext(distribute_lib.ReplicaContext):
    """The context of a process's only replica: it runs in the calling thread.

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
        self._graph = None if is_graph else ops.get_default_graph()

    @override
    def _merge_call(self, fn, args, kwargs):
        extended = self.strategy.extended
        is_inside = self._graph not in (None, ops.get_default_graph())
        if extended.numbers.are_unlike and is_inside:
            # As on the ranks with several, or they would fail while this one goes on.
            raise RuntimeError(
                f"rank {extended.communicator.rank}: Expected replicas to meet outside of "
                "branches, loops and nested functions where ranks have several devices. Received: "
                "merge_call in another graph than that of strategy.run. Wrap the optimizer by "
                "tf_adasum.wrap, or move the branch out of strategy.run."
            )
        args = values_of_each(distribute_utils.regroup((tuple(args),)), extended)
        kwargs = values_of_each(distribute_utils.regroup((kwargs,)), extended)
        return distribute_utils.select_replica(0, super()._merge_call(fn, args, kwargs))


def values_of_each(structure: Any, extended: HookedExtended) -> Any:
    """Returns what replicas hand on, with a value of each also where it is one object on all.

    To TensorFlow such a tensor is one value per process. A rank with one replica can't tell it
    from its only replica's own, of which others have one for each. So where ranks have unlike
    numbers all tensors are values of each.

    Args:
        structure: lists, tuples, mappings and the like.
        extended: whose replicas they are.
    """
    if not extended.numbers.are_unlike:
        return structure
    number = len(extended.worker_devices)

    def of_each(leaf):
        is_tensor = isinstance(leaf, (tf.Tensor, composite_tensor.CompositeTensor))
        if not is_tensor or isinstance(leaf, (tf.Variable, tf_values.DistributedValues)):
            return leaf
        return tf_values.PerReplica([leaf] * number)

    return tf.nest.map_structure(of_each, structure)


def _with_values_of_each(fn, extended: HookedExtended):
    def merged(strategy, *args, **kwargs):
        args, kwargs = values_of_each((args, kwargs), extended)
        return fn(strategy, *args, **kwargs)

    return merged
