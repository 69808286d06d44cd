"""The mixin that goes in front of a Keras optimizer: where its parts act.

Keras applies gradients in this order: accumulate, clip, decay the weights, update. The overridden
methods undo a 1/N in the loss before all of that; the accumulation decides when there is a step,
and the exchange lets the replicas meet around the update.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from typing_extensions import override

from tf_adasum.collectives.communicator import size
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.unconverted import unconverted
from tf_adasum.distribute.encoded_plan import with_reduction
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.steps.held_optimizers import check_held
from tf_adasum.keras_hooks.steps.losses import in_undivided_step, scaled
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of
from tf_adasum.optimizers.keras_steps import KerasSteps
from tf_adasum.optimizers.parts import Exchange, Lacking, Parts
from tf_adasum.optimizers.tallies import Lateness, LeftOut, Uploads

require_hooks(
    TFOptimizer,
    "_all_reduce_sum_gradients",
    "_backend_apply_gradients",
    "_distributed_tf_update_step",
    "_filter_empty_gradients",
    "add_variable_from_reference",
    "assign_add",
    "assign_sub",
)


class AdasumMixin:
    """Overrides the private steps of `TFOptimizer`; `wrap` puts it before the user's class."""

    _adasum: Parts
    _adasum_divided_loss: bool | None = None

    @override
    def build(self, variables):
        before = self._trainable_variables if self.built else None
        super().build(variables)
        # Keras builds a built one again: compile() of mixed_float16 puts a new scaler around it.
        if before is None or list(map(id, before)) != list(map(id, self._trainable_variables)):
            self._build_parts()

    def _build_parts(self) -> None:
        variables = self._trainable_variables
        reductions = self._reductions_of(variables)
        self._adasum.accumulation.build(self, variables, reductions)
        self._adasum.exchange.build(self, variables)
        if self._adasum.exchange.encoding is not None:
            strategy = strategy_of(self)
            self._adasum.exchange.encoding.build(strategy, variables, reductions)

    def _reductions_of(self, variables) -> list[str]:
        """Registers the variables with the strategy; returns the reduction of each."""
        strategy, exchange = strategy_of(self), self._adasum.exchange
        if not isinstance(strategy, AdasumStrategy):
            return ["adasum"] * len(variables)
        plan = with_reduction(strategy.register_variables(variables), exchange.reduction)
        if strategy.num_replicas_in_sync > 1:
            exchange.check_plan(plan, strategy.extended.settings["local_reduction"])
        return [row.reduction for row in plan]

    @property
    @override
    def iterations(self):
        """The number of steps taken; as in Keras, `accumulate` calls make one."""
        calls, count = super().iterations, self._adasum.accumulation.count
        return keras.ops.floor_divide(calls, count) if count > 1 else calls

    @property
    def waits_for_others(self) -> bool:
        """Whether each step waits for all ranks; then what else happens in a step may wait, too."""
        return self._adasum.exchange.waits_for_others

    @property
    def lateness(self) -> Lateness:
        """How many of this rank's steps were late (`adasum.sync`), and by how much at most."""
        return self._adasum.exchange.lateness

    @property
    def uploads(self) -> Uploads | None:
        """How often this rank uploaded (`adasum.sync.Lazy`); None where all do in each step."""
        return self._adasum.exchange.uploads

    @property
    def left_out(self) -> LeftOut:
        """How much was left out of exchanges in this process (`adasum.sync.Deadline`)."""
        return self._adasum.exchange.left_out

    def earlier_weights(self, weights) -> list | None:
        """Returns values of weights at which a step is to find gradients, too; None: at none."""
        return self._adasum.exchange.earlier_weights(weights)

    def take_earlier_gradients(self, replica: int, weights, gradients) -> None:
        """Is handed these gradients before the step applies its own; treats them as those."""
        if self._loss_is_divided():
            gradients = scaled(gradients, strategy_of(self).num_replicas_in_sync)
        gradients = self._clip_gradients(gradients)
        self._adasum.exchange.take_earlier_gradients(replica, weights, gradients)

    def begin_fit(self) -> None:
        """Is called on all ranks when `fit` begins."""
        self._adasum.exchange.begin()

    @override
    def finalize_variable_values(self, var_list):
        self.synchronize()
        super().finalize_variable_values(var_list)

    def synchronize(self) -> None:
        """Ends a round of local steps (`wrap(steps_per_sync=K)`) before its K-th step.

        `fit` calls it when it ends. Call it on all ranks alike, outside of `strategy.run`, before
        weights are saved or evaluated between two rounds; the next step begins a new round.
        Without steps since the last round it does nothing.
        """
        strategy = strategy_of(self)
        if strategy.num_replicas_in_sync > 1:
            with strategy.scope():
                self._adasum.exchange.synchronize(strategy)

    @override
    def add_variable_from_reference(self, reference_variable, *args, **kwargs):
        slot = super().add_variable_from_reference(reference_variable, *args, **kwargs)
        self._adasum.lacking.note_slot(reference_variable, slot)
        return slot

    @override
    @unconverted
    def _filter_empty_gradients(self, grads, vars):
        if self._strategy_with_peers() is not None:
            completed = self._adasum.lacking.completed(self, list(grads), list(vars))
            if completed is not None:
                return completed
        return super()._filter_empty_gradients(grads, vars)

    @override
    @unconverted
    def _backend_apply_gradients(self, grads, trainable_variables):
        strategy = self._strategy_with_peers()
        if strategy is not None:
            if self._adasum_divided_loss is None:
                check_held(self)
            if (share := strategy.extended.batch_share) is not None:
                share.rounds.check(self, self._calls_per_exchange())
            if self._loss_is_divided():
                # N times the gradient is the replica's own, which is what clipping and the local
                # step must see.
                grads = scaled(grads, strategy.num_replicas_in_sync)
        if not self._has_branches(strategy):
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        tf.distribute.get_replica_context().merge_call(
            self._apply_in_branches,
            args=(
                self._adasum.accumulation.leaves(trainable_variables, grads),
                trainable_variables,
                self._adasum.lacking.marks(trainable_variables),
            ),
        )

    def _calls_per_exchange(self) -> int | None:
        """After how many calls replicas meet; None if that changes."""
        steps = self._adasum.exchange.steps_per_exchange
        calls = self._adasum.accumulation.count * (self.gradient_accumulation_steps or 1)
        return steps and calls * steps

    def _loss_is_divided(self) -> bool:
        """tf.distribute asks own loops to divide by N; Keras' steps do not, for this optimizer."""
        if self._adasum_divided_loss is not None:
            return self._adasum_divided_loss
        return not in_undivided_step()

    def _has_branches(self, strategy: AdasumStrategy | None) -> bool:
        if self._adasum.accumulation.has_branches:
            return True
        if strategy is None:
            return False
        if self._adasum.lacking.has_branches:
            return True
        in_keras = self.gradient_accumulation_steps or self.ema_overwrite_frequency
        with_threads = strategy.extended.numbers.most > 1  # as all ranks must answer alike
        return self._adasum.exchange.has_branches or bool(in_keras and with_threads)

    def _apply_in_branches(self, strategy, leaves, trainable_variables, marks):
        has_peers = strategy.num_replicas_in_sync > 1
        exchange = self._adasum.exchange if has_peers else Exchange()
        lacking = self._adasum.lacking if has_peers else Lacking()

        def around_step(strategy, step):
            exchanged = functools.partial(exchange.around_step, strategy, step)
            lacking.around(strategy, trainable_variables, marks, exchanged)

        steps = KerasSteps(self, strategy, trainable_variables, around_step)
        self._adasum.accumulation.add(strategy, trainable_variables, leaves, steps)

    @override
    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)  # the exchange does it, or there are no peers

    @override
    @unconverted
    def _distributed_tf_update_step(self, distribution, grads_and_vars, learning_rate):
        # Here, and not in `_backend_update_step`: Nadam has one of its own, which must run.
        update_step = super()._distributed_tf_update_step
        if distribution.num_replicas_in_sync == 1:
            update_step(distribution, grads_and_vars, learning_rate)
            return
        grads, variables = zip(*grads_and_vars)

        def update(grads):
            update_step(distribution, list(zip(grads, variables)), learning_rate)

        idle = None if self._accumulates() else distribution.extended.idle.local()
        self._adasum.exchange.around_update(distribution, grads, variables, update, idle)

    @override
    @unconverted
    def assign_add(self, variable, value):
        if not self._adasum.exchange.take_change(variable, value, is_minus=False):
            super().assign_add(variable, value)

    @override
    @unconverted
    def assign_sub(self, variable, value):
        if not self._adasum.exchange.take_change(variable, value, is_minus=True):
            super().assign_sub(variable, value)

    def _accumulates(self) -> bool:
        """Whether a step is that of several batches, of which a replica without rows had some."""
        return self._adasum.accumulation.count > 1 or bool(self.gradient_accumulation_steps)

    def _strategy_with_peers(self) -> AdasumStrategy | None:
        """Returns the strategy to exchange through; None where there is only one replica.

        Looks at the strategy in force now: an optimizer made outside its scope would otherwise
        train every rank alone, without a word.
        """
        strategy = tf.distribute.get_strategy()
        if not isinstance(strategy, AdasumStrategy):
            num_replicas = max(strategy.num_replicas_in_sync, size())
            if num_replicas > 1:
                expected = (
                    f"the wrapped optimizer {self.name!r} to be applied under an AdasumStrategy, "
                    f"as there are {num_replicas} replicas"
                )
                advice = "Use fit on a model built in its scope(), or strategy.run."
                raise RuntimeError(refusal(expected, type(strategy).__name__, advice))
            return None
        strategy.check_made_here(self)
        if tf.distribute.in_cross_replica_context():
            expected = f"the wrapped optimizer {self.name!r} to be applied in a replica"
            advice = "Call it inside strategy.run."
            raise RuntimeError(refusal(expected, "cross-replica context", advice))
        return strategy if strategy.num_replicas_in_sync > 1 else None


def class_before_wrap(optimizer: keras.optimizers.Optimizer) -> type:
    """Returns the class of an optimizer before it was wrapped; its own if it was not."""
    return next(each for each in type(optimizer).__mro__ if not issubclass(each, AdasumMixin))
