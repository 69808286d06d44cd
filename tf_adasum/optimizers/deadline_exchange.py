"""What ranks exchange in every step, without what is late, which goes into a later step."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.deadline_allreduce import DeadlineAllreduce
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import native_variable
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.keras_hooks.steps.losses import scaled
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of
from tf_adasum.optimizers.changed_rows import add_change
from tf_adasum.optimizers.exchanges import (
    leaves_of,
    local_results,
    on_all,
    take_changes,
    without_idle,
)
from tf_adasum.optimizers.own_replicas import OwnReplicas
from tf_adasum.optimizers.parts import Exchange
from tf_adasum.optimizers.plan_checks import check_flat, check_reductions
from tf_adasum.optimizers.tallies import LeftOut
from tf_adasum.optimizers.variable_encoding import Residual

require_hooks(tf_values, "PerReplica")

_REDUCTIONS = ("adasum", "mean", "sum")
_NAME = "what is there in time"


class DeadlineExchange(Exchange):
    """Gradients, or changes of weights, that are there in time.

    Args:
        mode: "delta" or "gradient", as of `wrap`.
        milliseconds: for an exchange.
        max_left_out: the largest share that is left out of it.
    """

    def __init__(self, mode: str, milliseconds: float, max_left_out: float):
        self._mode = mode
        self._settings = milliseconds, max_left_out
        self.has_own_slots = mode == "delta"
        # By the communicator in force: advice on a training looks at parts of the ranks.
        self._allreduces: dict[Communicator, DeadlineAllreduce] = {}
        self._own_replicas = OwnReplicas()
        self._left_out: dict[int, tf.Variable] = {}
        self._weights: Sequence[keras.Variable] = ()
        self._num_local = 1
        self._tally = None

    @override
    def check_plan(self, rows, local_reduction):
        why = "to which a part that is left out is zero"
        check_reductions("Deadline", rows, _REDUCTIONS, why)
        check_flat("sync=Deadline", rows, local_reduction)
        super().check_plan(rows, local_reduction)

    @override
    def build(self, optimizer, variables):
        strategy = strategy_of(optimizer)
        if isinstance(strategy, AdasumStrategy):
            self._num_local = strategy.extended.num_local_replicas
        if self._num_local > 1 or strategy.num_replicas_in_sync > 1:
            self._left_out = {
                id(native_variable(each)): make_plain_zeros(
                    each.shape, tf.as_dtype(each.dtype).name
                )
                for each in variables
            }
        self._weights = list(variables)
        self._tally = make_plain_zeros([4])  # all steps, those of LeftOut, the sum, the most

    @override
    def get_config(self) -> dict:
        return {"mode": self._mode, "steps_per_sync": 1}

    @property
    @override
    def left_out(self) -> LeftOut:
        if self._tally is None:
            return super().left_out
        steps, late, total, most = map(float, self._tally.numpy())
        return LeftOut(int(late), total / max(steps, 1.0), most)

    @property
    @override
    def residuals(self) -> list:
        # A rank's replicas share them.
        return [Residual([each] * self._num_local) for each in self._left_out.values()]

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        if self._mode == "gradient":
            # Gradients of idle replicas are zero; the step is the same on all replicas.
            update(self._reduced(strategy, grads, variables))
            return
        before = [local_results(strategy, tf.identity, variable) for variable in variables]
        update(grads)
        changes = without_idle(strategy, take_changes(strategy, variables, before), idle)
        for variable, change in zip(variables, self._reduced(strategy, changes, variables)):
            strategy.extended.update(variable, add_change, args=(change,), group=False)

    def _reduced(self, strategy, values: Sequence, variables: Sequence) -> list:
        """Returns reductions of values per replica, and keeps what is not in them."""
        reductions = self._reductions(strategy, variables)
        residuals = [self._left_out[id(native_variable(each))] for each in variables]
        own = self._of_rank(strategy, values, reductions)
        # A LossScaleOptimizer hands on float32 for float16 variables.
        own = [tf.cast(each, kept.dtype) + kept for each, kept in zip(own, residuals)]
        reduced, left_out, share = self._allreduce_of(strategy).reduce(own, reductions)
        for residual, each in zip(residuals, left_out):
            residual.assign(each)
        self._count(share)
        return [on_all(strategy, each) for each in reduced]

    def _of_rank(self, strategy, values: Sequence, reductions: Sequence[str]) -> list[tf.Tensor]:
        """The reductions of the local replicas' values."""
        leaves = leaves_of(strategy, values)
        share, numbers = strategy.extended.batch_share, strategy.extended.numbers
        if share is not None:
            share.computed(leaves)
        own: list = [None] * len(values)
        for reduction in dict.fromkeys(reductions):
            places = [i for i, each in enumerate(reductions) if each == reduction]
            chosen = [[of_replica[i] for i in places] for of_replica in leaves]
            if share is not None:
                chosen = share.weighed(chosen, reduction, f"{_NAME}, by {reduction}")
            results = self._own_replicas.reduce(chosen, reduction, strategy.extended)
            if reduction == "mean" and numbers.are_unlike:
                # The mean of means of L_p replicas is that of all N if each counts P L_p / N.
                part = len(leaves) / numbers.total
                results = scaled(results, strategy.extended.communicator.size * part)
            for i, each in zip(places, results):
                own[i] = each
        return own

    def _count(self, share: tf.Tensor) -> None:
        steps, late, total, most = tf.unstack(self._tally.read_value())
        is_late = tf.cast(share > 0, share.dtype)
        new = [steps + 1, late + is_late, total + share, tf.maximum(most, share)]
        self._tally.assign(tf.stack(new))

    def _reductions(self, strategy, variables: Sequence) -> list[str]:
        # A step has TensorFlow's variables, which don't know their paths.
        rows = strategy.register_variables(self._weights)
        by_variable = {
            id(native_variable(each)): str(row.reduction) for each, row in zip(self._weights, rows)
        }
        return [by_variable[id(native_variable(each))] for each in variables]

    def _allreduce_of(self, strategy: AdasumStrategy) -> DeadlineAllreduce:
        communicator = strategy.extended.communicator
        if communicator not in self._allreduces:
            self._allreduces[communicator] = DeadlineAllreduce(communicator, _NAME, *self._settings)
        return self._allreduces[communicator]
