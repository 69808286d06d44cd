"""The change of the variables on every replica, reduced over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values

from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(tf_values, "PerReplica")

SUM = tf.distribute.ReduceOp.SUM


def local_values(strategy: tf.distribute.Strategy, variable) -> tf_values.PerReplica:
    """Reads the variable on each local replica, before later assignments."""
    return _local_results(strategy, tf.identity, variable)


def reduce_changes(strategy: tf.distribute.Strategy, variables: Sequence, before: Sequence) -> None:
    """Sets w = w_before + reduction of (w - w_before) over all replicas.

    Args:
        strategy: the `AdasumStrategy` in force, in cross-replica context.
        variables: distributed variables w; the policy's rule for each chooses the reduction.
        before: w_before of each, per replica or in distributed variables; equal on all replicas.
    """
    deltas = [
        _local_results(strategy, _step_back, variable, old)
        for variable, old in zip(variables, before)
    ]
    reduced = strategy.extended.batch_reduce_to(SUM, list(zip(deltas, variables)))
    for variable, delta in zip(variables, reduced):
        strategy.extended.update(variable, _add, args=(delta,), group=False)


def _local_results(strategy, function, variable, *args) -> tf_values.PerReplica:
    """What `function(variable, *args)` returns on each local replica, in the program's order."""
    results = strategy.extended.update(variable, function, args=args, group=False)
    return tf_values.PerReplica(list(results))


def _step_back(variable, old):
    """Returns the change since `old`, which becomes the value again.

    The values that the step left are in nobody's hands then, so that of old, new and change only
    two take memory while the change is exchanged.
    """
    change = variable - old
    variable.assign(old)
    return change


def _add(variable, delta):
    variable.assign_add(delta)
