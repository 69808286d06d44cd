"""What an optimizer does in some calls only, with each `tf.cond` outside of the replicas.

Replicas that run in threads cannot meet inside a branch, so the branch is taken in cross-replica
context, and the replicas run inside it.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.optimizers.local_steps import LocalSteps
from tf_adasum.optimizers.micro_batches import MicroBatches

require_hooks(
    TFOptimizer,
    "_apply_weight_decay",
    "_backend_increment_gradient_accumulators",
    "_backend_reset_gradient_accumulators",
    "_backend_update_step",
    "_clip_gradients",
    "_get_variable_index",
    "_overwrite_model_variables_with_average_value",
    "_update_model_variables_moving_average",
)


class ConditionalStepsMixin:
    """The steps of `TFOptimizer`'s `_backend_apply_gradients`, in cross-replica context."""

    _micro_batches: MicroBatches | None = None
    _local_steps: LocalSteps | None = None

    def _apply_with_branches(self, strategy, grads, trainable_variables):
        replicas = strategy.extended.call_for_each_replica
        steps = self.gradient_accumulation_steps
        if self._micro_batches is not None:
            self._micro_batches.add(
                strategy,
                self._iterations.value % self._micro_batches.count,
                self._indices(trainable_variables),
                grads,
                lambda combined: self._step(strategy, combined, trainable_variables),
            )
        elif steps:
            tf.cond(
                tf.equal((tf.convert_to_tensor(self._iterations) + 1) % steps, 0),
                lambda: replicas(self._step_with_accumulated, args=(grads, trainable_variables)),
                lambda: replicas(self._accumulate, args=(grads, trainable_variables)),
            )
            self._move_average(strategy)
        else:
            self._step(strategy, grads, trainable_variables)

    def _step(self, strategy, grads, trainable_variables):
        replicas = strategy.extended.call_for_each_replica
        clip_decay_step = functools.partial(
            replicas, self._clip_decay_step, args=(grads, trainable_variables)
        )
        if self._local_steps is not None and strategy.num_replicas_in_sync > 1:
            self._local_steps.step(strategy, clip_decay_step)
        else:
            clip_decay_step()
        self._move_average(strategy)

    def _move_average(self, strategy):
        if not self.use_ema:
            return
        strategy.extended.call_for_each_replica(
            self._update_model_variables_moving_average, args=(self._trainable_variables,)
        )
        if self.ema_overwrite_frequency:
            iterations = tf.convert_to_tensor(self.iterations)
            tf.cond(
                tf.equal((iterations + 1) % self.ema_overwrite_frequency, 0),
                lambda: self._overwrite_model_variables_with_average_value(
                    self._trainable_variables
                ),
                lambda: None,
            )

    def _indices(self, trainable_variables) -> list[int]:
        return [self._get_variable_index(variable) for variable in trainable_variables]

    def _accumulators(self, trainable_variables):
        return [self._accumulated_gradients[i] for i in self._indices(trainable_variables)]

    def _accumulate(self, grads, trainable_variables):
        self._backend_increment_gradient_accumulators(
            grads, self._accumulators(trainable_variables)
        )

    def _step_with_accumulated(self, grads, trainable_variables):
        accumulated = self._accumulators(trainable_variables)
        steps = self.gradient_accumulation_steps
        self._clip_decay_step(
            [(grad + sum_) / steps for grad, sum_ in zip(grads, accumulated)], trainable_variables
        )
        self._backend_reset_gradient_accumulators()

    def _clip_decay_step(self, grads, trainable_variables):
        grads = self._clip_gradients(grads)
        self._apply_weight_decay(trainable_variables)
        self._backend_update_step(grads, trainable_variables, self.learning_rate)
