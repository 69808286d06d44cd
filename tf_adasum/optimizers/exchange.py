"""The mixin that goes in front of a Keras optimizer: where it meets the other replicas.

Keras applies gradients in this order: accumulate, clip, decay the weights, update. The
overridden methods undo a 1/N in the loss before all of that, and exchange either the gradients
just before the update or the weight changes just after it.
"""

from __future__ import annotations

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from typing_extensions import override

from tf_adasum.collectives.communicator import size
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import native_variable
from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.losses import in_undivided_step, scaled
from tf_adasum.optimizers.conditional_steps import ConditionalStepsMixin
from tf_adasum.optimizers.deltas import SUM, local_values, reduce_changes
from tf_adasum.optimizers.local_steps import LocalSteps
from tf_adasum.optimizers.micro_batches import MicroBatches

require_hooks(
    TFOptimizer,
    "_all_reduce_sum_gradients",
    "_backend_apply_gradients",
    "_backend_update_step",
    "_distributed_tf_update_step",
)


class ExchangeMixin(ConditionalStepsMixin):
    """Overrides the private steps of `TFOptimizer`; `wrap` puts it before the user's class."""

    _adasum_mode = "delta"
    _adasum_accumulate = 1
    _adasum_steps_per_sync = 1
    _adasum_divided_loss: bool | None = None

    @override
    def build(self, variables):
        super().build(variables)
        reductions = self._register_variables()
        if self._adasum_accumulate > 1:
            self._micro_batches = MicroBatches(self, variables, reductions, self._adasum_accumulate)
        if self._adasum_steps_per_sync > 1:
            self._local_steps = LocalSteps(self, variables, self._adasum_steps_per_sync)

    def _register_variables(self) -> list[str]:
        """Returns the reduction of each trainable variable."""
        variables = self._trainable_variables
        if isinstance(self._distribution_strategy, AdasumStrategy):
            plan = self._distribution_strategy.register_variables(variables)
            return [row.reduction for row in plan]
        return ["adasum"] * len(variables)

    @property
    @override
    def iterations(self):
        """The number of steps taken; as in Keras, `accumulate` calls make one."""
        calls = super().iterations
        steps = self._adasum_accumulate
        return keras.ops.floor_divide(calls, steps) if steps > 1 else calls

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
        strategy = self._distribution_strategy
        if self._local_steps is not None and strategy.num_replicas_in_sync > 1:
            with strategy.scope():
                self._local_steps.end_early(strategy)

    @override
    def _backend_apply_gradients(self, grads, trainable_variables):
        strategy = self._strategy_with_peers()
        if strategy is not None and self._loss_is_divided():
            # N times the gradient is the replica's own, which is what clipping and the local step
            # must see.
            grads = scaled(grads, strategy.num_replicas_in_sync)
        if self._micro_batches is not None:
            grads = self._micro_batches.leaves(self._indices(trainable_variables), grads)
        if self._has_branches(strategy):
            tf.distribute.get_replica_context().merge_call(
                self._apply_with_branches, args=(grads, trainable_variables)
            )
        else:
            super()._backend_apply_gradients(grads, trainable_variables)

    def _loss_is_divided(self) -> bool:
        """tf.distribute asks own loops to divide by N; Keras' steps do not, for this optimizer."""
        if self._adasum_divided_loss is not None:
            return self._adasum_divided_loss
        return not in_undivided_step()

    def _has_branches(self, strategy: AdasumStrategy | None) -> bool:
        if self._micro_batches is not None:
            return True
        if strategy is None:
            return False
        in_keras = self.gradient_accumulation_steps or self.ema_overwrite_frequency
        with_threads = strategy.extended.num_local_replicas > 1
        return self._local_steps is not None or bool(in_keras and with_threads)

    @override
    def _all_reduce_sum_gradients(self, grads_and_vars):
        grads_and_vars = list(grads_and_vars)
        if self._adasum_mode == "delta" or self._strategy_with_peers() is None:
            return grads_and_vars
        grads, variables = zip(*grads_and_vars)
        reduced = tf.distribute.get_replica_context().merge_call(
            _reduce_gradients, args=(list(grads), list(variables))
        )
        return list(zip(reduced, variables))

    @override
    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        exchanges = self._adasum_mode == "delta" and self._local_steps is None
        if not exchanges or self._strategy_with_peers() is None:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        variables = [native_variable(variable) for variable in trainable_variables]
        tf.distribute.get_replica_context().merge_call(
            self._step_and_reduce_deltas, args=(list(grads), variables, learning_rate)
        )

    def _step_and_reduce_deltas(self, strategy, grads, variables, learning_rate):
        """Local step on every replica, then w = w_old + reduction of the replicas' changes."""
        before = [local_values(strategy, variable) for variable in variables]
        self._distributed_tf_update_step(strategy, list(zip(grads, variables)), learning_rate)
        reduce_changes(strategy, variables, before)

    def _strategy_with_peers(self) -> AdasumStrategy | None:
        """Returns the strategy to exchange through; None where there is only one replica.

        Looks at the strategy in force now: an optimizer made outside its scope would otherwise
        train every rank alone, without a word.
        """
        strategy = tf.distribute.get_strategy()
        if not isinstance(strategy, AdasumStrategy):
            num_replicas = max(strategy.num_replicas_in_sync, size())
            if num_replicas > 1:
                raise RuntimeError(
                    f"The wrapped optimizer {self.name!r} must be applied under an "
                    f"AdasumStrategy where there are {num_replicas} replicas; use fit on a model "
                    f"built in its scope(). Received: {type(strategy).__name__}."
                )
            return None
        strategy.check_made_here(self)
        if tf.distribute.in_cross_replica_context():
            raise RuntimeError(
                f"The wrapped optimizer {self.name!r} must be applied in a replica: call it "
                "inside strategy.run. Received: cross-replica context."
            )
        return strategy if strategy.num_replicas_in_sync > 1 else None


def _reduce_gradients(strategy, grads, variables):
    return strategy.extended.batch_reduce_to(SUM, list(zip(grads, variables)))
