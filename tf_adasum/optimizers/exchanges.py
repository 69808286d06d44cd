"""What replicas exchange in every step: gradients, or the changes of their variables."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives import reductions
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.idle_replicas import zeros_if
from tf_adasum.optimizers.changed_rows import add_changed_rows, add_reduced, come_as_rows
from tf_adasum.optimizers.handed_changes import HandedChanges, hands_changes
from tf_adasum.optimizers.mixin import class_before_wrap
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
    """mode="delta": each replica makes its own step, then the changes w - w_old are reduced.

    A change that Keras' rule hands to a variable is taken there: the variable stays as it is until
    the reduced one comes.
    """

    has_own_slots = True

    def __init__(self) -> None:
        self._hands_changes = False
        self._are_odd = True
        self._handed: HandedChanges | None = None

    @override
    def build(self, optimizer, variables):
        self._hands_changes = self._are_odd and hands_changes(class_before_wrap(optimizer))

    @override
    def check_plan(self, rows, local_reduction):
        super().check_plan(rows, local_reduction)
        # Rules hand over what they subtract: the largest of that is not the largest change.
        self._are_odd = all(reductions.ALL[row.reduction].is_odd for row in rows)

    @override
    def get_config(self) -> dict:
        return {"mode": "delta", "steps_per_sync": 1}

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        as_rows = self.travels_as_rows(variables, come_as_rows(strategy, grads))
        before = [
            None
            if self._is_handed(variable, has_rows)
            else local_results(strategy, tf.identity, variable)
            for variable, has_rows in zip(variables, as_rows)
        ]
        self._handed = HandedChanges(
            variable for variable, old in zip(variables, before) if old is None
        )
        try:
            update(grads)
            taken = [self._take(strategy, *each) for each in zip(variables, before)]
        finally:
            self._handed = None
        changes, are_minus = zip(*taken)
        changes = without_idle(strategy, changes, idle)
        with self.asking(strategy):
            _add_all_reduced(strategy, variables, changes, as_rows, are_minus)

    @override
    def take_change(self, variable, value, is_minus):
        return self._handed is not None and self._handed.take(variable, value, is_minus)

    def _is_handed(self, variable, has_rows: bool) -> bool:
        return self._hands_changes and not has_rows and not self._is_encoded(variable)

    def _take(self, strategy, variable, old) -> tuple[tf_values.PerReplica, bool]:
        """The change, which is not in the variable any more, and whether it is minus that."""
        if old is None:
            values, is_minus = self._handed.of(variable)
            return tf_values.PerReplica(values), is_minus
        return local_results(strategy, _step_back, variable, old), False


def reduce_changes(
    strategy: tf.distribute.Strategy,
    variables: Sequence,
    before: Sequence,
    as_rows: Sequence[bool],
) -> None:
    """Sets w = w_before + reduction of (w - w_before) over all replicas.

    Args:
        strategy: the `AdasumStrategy` in force, in cross-replica context.
        variables: distributed variables w; the policy's rule for each chooses the reduction.
        before: w_before of each, per replica or in distributed variables; equal on all replicas.
        as_rows: whether the rows of each that changed travel, which may be few.
    """
    changes = take_changes(strategy, variables, before)
    _add_all_reduced(strategy, variables, changes, as_rows, [False] * len(changes))


def _add_all_reduced(strategy, variables, changes, as_rows, are_minus) -> None:
    """Adds the reduction of each change to its variable, of some of the rows that changed."""
    together = list(zip(changes, variables, as_rows, are_minus))
    dense = [(change, variable) for change, variable, has_rows, _ in together if not has_rows]
    dense_are_minus = [is_minus for _, _, has_rows, is_minus in together if not has_rows]
    rows = [(change, variable) for change, variable, has_rows, _ in together if has_rows]
    add_reduced(strategy, dense, dense_are_minus)
    add_changed_rows(strategy, rows)


def take_changes(
    strategy: tf.distribute.Strategy, variables: Sequence, before: Sequence
) -> list[tf_values.PerReplica]:
    """Returns w - w_before of each local replica, and sets w = w_before; see `reduce_changes`."""
    return [
        local_results(strategy, _step_back, variable, old)
        for variable, old in zip(variables, before)
    ]


def leaves_of(strategy: tf.distribute.Strategy, values: Sequence) -> list[list[tf.Tensor]]:
    """Returns a list of tensors for each local replica, of values per replica."""
    return [
        [tf.convert_to_tensor(each) for each in of_replica]
        for of_replica in zip(*map(strategy.experimental_local_results, values))
    ]


def on_all(strategy: tf.distribute.Strategy, value: tf.Tensor) -> tf_values.PerReplica:
    """Returns a value that is the same on all local replicas."""
    return tf_values.PerReplica([value] * len(strategy.extended.worker_devices))


def local_results(strategy, function, variable, *args) -> tf_values.PerReplica:
    """What `function(variable, *args)` returns on each local replica, in the program's order."""
    results = strategy.extended.update(variable, function, args=args, group=False)
    return tf_values.PerReplica(list(results))


def without_idle(
    strategy: tf.distribute.Strategy,
    changes: Sequence[tf_values.PerReplica],
    idle: Sequence[tf.Tensor] | None,
) -> Sequence[tf_values.PerReplica]:
    """The changes, zero on idle replicas: momentum moves a weight without a gradient, too.

    Args:
        strategy: the strategy in force.
        changes: per replica.
        idle: whether those of each local replica count as zero; None if none do.
    """
    if idle is None:
        return changes
    of_replicas = []
    for replica, device in enumerate(strategy.extended.worker_devices):
        with tf.device(device):
            own = [change.values[replica] for change in changes]
            of_replicas.append(zeros_if(idle[replica], own))
    return [tf_values.PerReplica(list(each)) for each in zip(*of_replicas)]


def _step_back(variable, old):
    """Returns the change since `old`, which becomes the value again.

    The step's new values are released here: of old, new and change only two take memory while the
    change is exchanged.
    """
    change = variable - old
    variable.assign(old)
    return change
