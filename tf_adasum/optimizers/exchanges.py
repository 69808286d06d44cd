"""What replicas exchange in every step: gradients, or the changes of their variables."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.idle_replicas import zeros_if
from tf_adasum.optimizers.changed_rows import add_change, add_changed_rows, come_as_rows
from tf_adasum.optimizers.parts import Exchange

require_hooks(tf_values, "PerReplica")

SUM = tf.distribute.ReduceOp.SUM


class GradientExchange(Exchange):
    """mode="gradient": the gradients are reduced, then all replicas make the same step."""

    @override
    def get_config(self) -> dict:
        return {"mode": "gradient", "steps_per_sync": 1}

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        del idle  # their gradients are zero; the step is the same on all replicas
        with self.asking(strategy):
            reduced = strategy.extended.batch_reduce_to(SUM, list(zip(grads, variables)))
        update(reduced)


class DeltaExchange(Exchange):
    """mode="delta": each replica makes its own step, then the changes w - w_old are reduced."""

    has_own_slots = True

    @override
    def get_config(self) -> dict:
        return {"mode": "delta", "steps_per_sync": 1}

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        before = [local_results(strategy, tf.identity, variable) for variable in variables]
        update(grads)
        as_rows = self.travels_as_rows(variables, come_as_rows(strategy, grads))
        with self.asking(strategy):
            reduce_changes(strategy, variables, before, as_rows, idle)


def reduce_changes(
    strategy: tf.distribute.Strategy,
    variables: Sequence,
    before: Sequence,
    as_rows: Sequence[bool],
    idle: Sequence[tf.Tensor] | None = None,
) -> None:
    """Sets w = w_before + reduction of (w - w_before) over all replicas.

    Args:
        strategy: the `AdasumStrategy` in force, in cross-replica context.
        variables: distributed variables w; the policy's rule for each chooses the reduction.
        before: w_before of each, per replica or in distributed variables; equal on all replicas.
        as_rows: whether the rows of each that changed travel, which may be few.
        idle: whether the change of each local replica counts as zero; None if none does.
    """
    deltas = take_changes(strategy, variables, before, idle)
    changes = list(zip(deltas, variables, as_rows))
    dense = [(delta, variable) for delta, variable, has_rows in changes if not has_rows]
    if dense:
        for (_, variable), delta in zip(dense, strategy.extended.batch_reduce_to(SUM, dense)):
            strategy.extended.update(variable, add_change, args=(delta,), group=False)
    add_changed_rows(
        strategy, [(delta, variable) for delta, variable, has_rows in changes if has_rows]
    )


def take_changes(
    strategy: tf.distribute.Strategy,
    variables: Sequence,
    before: Sequence,
    idle: Sequence[tf.Tensor] | None,
) -> list[tf_values.PerReplica]:
    """Returns w - w_before of each local replica, and sets w = w_before; see `reduce_changes`."""
    changes = [
        local_results(strategy, _step_back, variable, old)
        for variable, old in zip(variables, before)
    ]
    return changes if idle is None else _without_idle(strategy, changes, idle)


def on_all(strategy: tf.distribute.Strategy, value: tf.Tensor) -> tf_values.PerReplica:
    """Returns a value that is the same on all local replicas."""
    return tf_values.PerReplica([value] * len(strategy.extended.worker_devices))


def local_results(strategy, function, variable, *args) -> tf_values.PerReplica:
    """What `function(variable, *args)` returns on each local replica, in the program's order."""
    results = strategy.extended.update(variable, function, args=args, group=False)
    return tf_values.PerReplica(list(results))


def _without_idle(strategy, deltas, idle) -> list[tf_values.PerReplica]:
    """The changes, zero on idle replicas: momentum moves a weight without a gradient, too."""
    of_replicas = []
    for replica, device in enumerate(strategy.extended.worker_devices):
        with tf.device(device):
            own = [delta.values[replica] for delta in deltas]
            of_replicas.append(zeros_if(idle[replica], own))
    return [tf_values.PerReplica(list(changes)) for changes in zip(*of_replicas)]


def _step_back(variable, old):
    """Returns the change since `old`, which becomes the value again.

    The values that the step left are in nobody's hands then, so that of old, new and change only
    two take memory while the change is exchanged.
    """
    change = variable - old
    variable.assign(old)
    return change
