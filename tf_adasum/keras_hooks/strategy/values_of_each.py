"""What replicas hand on, where ranks have unlike numbers of them: values of each.

To TensorFlow a tensor that is one object on all replicas of a process is one value per process. A
rank with one replica can't tell it from its only replica's own, of which others have one for each.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import mirrored_run
from tensorflow.python.distribute import values as tf_values
from tensorflow.python.framework import composite_tensor

from tf_adasum.keras_hooks.core.branches import error_in_branches
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(mirrored_run, "_MirroredReplicaContext", "_MirroredReplicaThread")
require_hooks(mirrored_run._MirroredReplicaContext, "_merge_call")
require_reads(mirrored_run._MirroredReplicaThread, "__init__", "graph")
require_hooks(tf_values, "DistributedValues", "PerReplica")
require_hooks(composite_tensor, "CompositeTensor")


def install() -> None:
    """Lets replicas in threads hand on values of each to `merge_call`, outside of branches."""
    original = mirrored_run._MirroredReplicaContext._merge_call

    @functools.wraps(original)
    def merge(self, fn, args, kwargs):
        extended = self.strategy.extended
        if isinstance(extended, HookedExtended):
            if threading.current_thread().graph is not tf.compat.v1.get_default_graph():
                raise error_in_branches()
            if extended.numbers.are_unlike:
                fn = _with_values_of_each(fn, extended)
        return original(self, fn, args, kwargs)

    mirrored_run._MirroredReplicaContext._merge_call = merge


def values_of_each(structure: Any, extended: HookedExtended) -> Any:
    """Returns what replicas hand on; where ranks have unlike numbers all tensors as values of each.

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
