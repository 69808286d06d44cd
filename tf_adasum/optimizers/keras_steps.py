"""The steps of `TFOptimizer._backend_apply_gradients`, each by itself, in cross-replica context.

Replicas that run in threads cannot meet inside a branch, so what happens in some calls only
branches out here, and the replicas run inside of the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from typing_extensions import override

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.steps.optimizer_parts import batches_seen, sums_of_gradients
from tf_adasum.optimizers.parts import Accumulation

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


class KerasSteps:
    """The steps of one call.

    Args:
        optimizer: the Keras optimizer.
        strategy: the strategy in force.
        trainable_variables: the variables of the call.
        around_step: takes the clipping, decay and update of all replicas, and calls it.
    """

    def __init__(
        self,
        optimizer,
        strategy: tf.distribute.Strategy,
        trainable_variables: Sequence,
        around_step: Callable[[tf.distribute.Strategy, Callable[[], None]], None],
    ):
        self._optimizer = optimizer
        self._strategy = strategy
        self._variables = trainable_variables
        self._around_step = around_step

    def update(self, grads: Sequence) -> None:
        """Clips the gradients, decays the weights and updates them, on every replica."""
        self._around_step(self._strategy, lambda: self.on_replicas(self._clip_decay_update, grads))

    def on_replicas(self, function: Callable, *args):
        """Calls the function on every replica with its values; returns the results of all."""
        return self._strategy.extended.call_for_each_replica(function, args=args)

    def move_average(self) -> None:
        """Moves the average of `use_ema`, and sets the weights to it where it is time."""
        optimizer = self._optimizer
        if not optimizer.use_ema:
            return
        variables = optimizer._trainable_variables
        self.on_replicas(optimizer._update_model_variables_moving_average, variables)
        if optimizer.ema_overwrite_frequency:
            iterations = tf.convert_to_tensor(optimizer.iterations)
            tf.cond(
                tf.equal((iterations + 1) % optimizer.ema_overwrite_frequency, 0),
                lambda: optimizer._overwrite_model_variables_with_average_value(variables),
                lambda: None,
            )

    def _clip_decay_update(self, grads):
        optimizer = self._optimizer
        grads = optimizer._clip_gradients(grads)
        optimizer._apply_weight_decay(self._variables)
        optimizer._backend_update_step(grads, self._variables, optimizer.learning_rate)


class KerasAccumulation(Accumulation):
    """Keras' own `gradient_accumulation_steps`: gradients are added, their mean makes the step.

    Keras branches in each replica, which is right where the replica is the process's only one.
    """

    @override
    def build(self, optimizer, variables, reductions):
        del variables, reductions
        self._optimizer = optimizer

    @property
    @override
    def variables(self) -> list:
        return [sum_ for sum_ in sums_of_gradients(self._optimizer) if sum_ is not None]

    @override
    def add(self, strategy, trainable_variables, leaves, steps):
        del strategy
        optimizer, count = self._optimizer, self._optimizer.gradient_accumulation_steps
        indices = [optimizer._get_variable_index(variable) for variable in trainable_variables]
        all_sums = sums_of_gradients(optimizer)
        sums = [all_sums[index] for index in indices]

        def mean(grads):
            return [(grad + sum_) / count for grad, sum_ in zip(grads, sums)]

        def step():
            steps.update(steps.on_replicas(mean, leaves))
            steps.on_replicas(optimizer._backend_reset_gradient_accumulators)

        def increment(grads):
            optimizer._backend_increment_gradient_accumulators(grads, sums)

        is_step = tf.equal((tf.convert_to_tensor(batches_seen(optimizer)) + 1) % count, 0)
        tf.cond(is_step, step, lambda: steps.on_replicas(increment, leaves))
        steps.move_average()


def accumulation_of(optimizer: keras.optimizers.Optimizer) -> Accumulation:
    """Returns Keras' own accumulation where the optimizer has one; else a step in each call."""
    return KerasAccumulation() if optimizer.gradient_accumulation_steps else Accumulation()
