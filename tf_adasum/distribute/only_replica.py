"""A process's only replica: its context, and its values where other ranks have several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, distribute_utils
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(distribute_lib.ReplicaContext, "_merge_call")
require_hooks(distribute_utils, "regroup", "select_replica")
require_hooks(tf_values, "PerReplica")

# Keras' variables are tensors to tf.is_tensor; they are not values of this replica alone.
_TENSORS = (tf.Tensor, tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)


class OnlyReplicaContext(distribute_lib.ReplicaContext):
    """The context of a process's only replica: it runs in the calling thread.

    Without threads, `merge_call` also works inside `tf.cond`, which gradient accumulation
    and the overwriting by an exponential moving average need.
    """

    @override
    def _merge_call(self, fn, args, kwargs):
        has_others = self.strategy.extended.numbers.are_unlike
        args = handed_on(tuple(args), has_others)
        kwargs = handed_on(kwargs, has_others)
        return distribute_utils.select_replica(0, super()._merge_call(fn, args, kwargs))


def handed_on(structure: Any, others_have_several: bool) -> Any:
    """Returns what the replica hands on, as the code across replicas takes it.

    A tensor by itself is one value per process there. Where other ranks have several replicas,
    who have a value each, it is one, too.

    Args:
        structure: lists, tuples and mappings.
        others_have_several: whether there are such ranks.
    """
    regrouped = distribute_utils.regroup((structure,))
    return _with_values(regrouped) if others_have_several else regrouped


def _with_values(structure: Any) -> Any:
    if isinstance(structure, tuple) and hasattr(structure, "_make"):
        return structure._make(map(_with_values, structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(map(_with_values, structure))
    if isinstance(structure, Mapping):
        return type(structure)({key: _with_values(value) for key, value in structure.items()})
    return tf_values.PerReplica([structure]) if isinstance(structure, _TENSORS) else structure
