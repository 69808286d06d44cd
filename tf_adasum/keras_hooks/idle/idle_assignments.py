"""What an idle replica assigns to statistics is left out.

Statistics are the variables of metrics, and others that no optimizer trains: floating ones, and
those with an aggregation. An integer without one is taken for the program's own count, the same on
all replicas, which a replica that left one out would not share any more.
"""

from __future__ import annotations

import functools
import threading

import keras
import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from tensorflow.python.framework import tensor_util

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(tf_values.DistributedVariable, "assign", "assign_add", "assign_sub")
require_hooks(tf_values, "SyncOnReadVariable")
require_hooks(keras.layers.BatchNormalization, "call")
require_hooks(keras.layers.SpectralNormalization, "call")
require_hooks(tensor_util, "is_tf_type")

_Aggregation = tf.VariableAggregation


class _Agreed(threading.local):
    """What this thread's replica computes of all replicas' rows, and so as the others do.

    Attributes:
        ids: of the variables of the synchronized layers that are called.
    """

    ids: frozenset[int] = frozenset()


_agreed = _Agreed()


def install() -> None:
    """Lets `DistributedVariable.assign` and its like look for an idle replica."""
    for name in ("assign", "assign_add", "assign_sub"):
        _leave_out(name, keeps_old=name == "assign")
    _keep_spectral_normalization()
    _keep_synchronized_normalization()


def _leave_out(name: str, keeps_old: bool) -> None:
    original = getattr(tf_values.DistributedVariable, name)

    @functools.wraps(original)
    def assign(self, value, *args, **kwargs):
        context = replica_context_with_peers()
        is_idle = None if context is None else context.strategy.extended.idle.here()
        is_own = is_idle is not None and id(self) not in _agreed.ids
        if is_own and _is_statistic(self, value):
            value = _counted(self, tf.cast(value, self.dtype), is_idle, context, keeps_old)
        return original(self, value, *args, **kwargs)

    setattr(tf_values.DistributedVariable, name, assign)


def _is_statistic(variable, value) -> bool:
    if isinstance(variable, tf_values.SyncOnReadVariable):
        return True
    if variable.trainable:
        return False
    if variable.aggregation in (_Aggregation.MEAN, _Aggregation.SUM):
        return tensor_util.is_tf_type(value)  # a Python number is taken as it is
    return variable.dtype.is_floating


def _counted(variable, value, is_idle, context, keeps_old: bool):
    """What the replica hands on: its value, or one that leaves the others' result as it is."""
    on_read = isinstance(variable, tf_values.SyncOnReadVariable)
    aggregation = _Aggregation.NONE if on_read else variable.aggregation
    if keeps_old and aggregation in (_Aggregation.NONE, _Aggregation.ONLY_FIRST_REPLICA):
        return tf.where(is_idle, tf.convert_to_tensor(variable), value)
    value = tf.where(is_idle, tf.zeros_like(value), value)
    if aggregation != _Aggregation.MEAN:
        return value
    # all_reduce leaves the idle ones out.
    share = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([], value.dtype))
    return value * (context.num_replicas_in_sync / tf.maximum(share, 1))


def _keep_spectral_normalization() -> None:
    """Its vectors follow from the weights alone: they stay equal on all replicas."""
    original = keras.layers.SpectralNormalization.call

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        context = replica_context_with_peers()
        if context is None:
            return original(self, *args, **kwargs)
        with context.strategy.extended.idle.nothing_left_out():
            return original(self, *args, **kwargs)

    keras.layers.SpectralNormalization.call = call


def _keep_synchronized_normalization() -> None:
    """Its sums leave the made-up row out; what it keeps of them stays equal on all replicas."""
    original = keras.layers.BatchNormalization.call

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        outer = _agreed.ids
        if self.synchronized:
            _agreed.ids = outer.union(id(each.value) for each in self.non_trainable_variables)
        try:
            return original(self, *args, **kwargs)
        finally:
            _agreed.ids = outer

    keras.layers.BatchNormalization.call = call
