"""steps_per_sync=K: K local optimizer steps between two reductions of the weights' change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

from tf_adasum.distribute.variables import native_variable
from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.optimizers.deltas import reduce_changes

require_hooks(TFOptimizer, "_use_weight_decay")


class LocalSteps:
    """The round that an optimizer's replicas are in: its first weights and its steps so far.

    Args:
        optimizer: the Keras optimizer; it owns the variables, so that they are saved with it.
        variables: its trainable variables.
        count: the number of steps K of a round.
    """

    def __init__(self, optimizer, variables: Sequence, count: int):
        self._optimizer = optimizer
        self._count = count
        self._weights = list(variables)
        self._start = [optimizer.add_variable_from_reference(v, "round_start") for v in variables]
        self._taken = optimizer.add_variable(
            (), dtype="int", aggregation="only_first_replica", name="steps_since_sync"
        )

    @property
    def taken(self) -> int:
        """Steps of the round so far, read eagerly."""
        return int(self._taken.numpy())

    def step(self, strategy: tf.distribute.Strategy, local_step: Callable[[], None]) -> None:
        """Takes one step of all replicas, in cross-replica context; the K-th ends the round.

        Args:
            strategy: the `AdasumStrategy` in force.
            local_step: decays the weights and changes them, on every replica by itself.
        """
        # Weights that were loaded or set since the last round count as its start.
        tf.cond(tf.equal(self._taken.value, 0), lambda: self._begin(strategy), lambda: None)
        self._decay_start(strategy)
        local_step()
        self._taken.assign_add(1)
        ended = tf.equal(self._taken.value, self._count)
        tf.cond(ended, lambda: self._end(strategy), lambda: None)

    def end_early(self, strategy: tf.distribute.Strategy) -> None:
        """Ends a round that has begun; eager, in cross-replica context, on all ranks alike."""
        if self.taken > 0:
            self._end(strategy)

    def _begin(self, strategy):
        for start, weight in self._pairs():
            strategy.extended.update(start, _assign, args=(weight,), group=False)

    def _end(self, strategy):
        starts, weights = zip(*self._pairs())
        reduce_changes(strategy, weights, starts)
        self._taken.assign(0)

    def _decay_start(self, strategy):
        """Keeps weight decay out of the change, where it could count once for every replica."""
        optimizer = self._optimizer
        if optimizer.weight_decay is None:
            return

        def decay(start):
            rate = tf.cast(optimizer.learning_rate, start.dtype)
            start.assign_sub(start * tf.cast(optimizer.weight_decay, start.dtype) * rate)

        for start, weight in self._pairs():
            if optimizer._use_weight_decay(weight):
                strategy.extended.update(start, decay, group=False)

    def _pairs(self):
        for start, weight in zip(self._start, self._weights):
            yield start.value, native_variable(weight)


def _assign(start: tf.Variable, weight: tf.Variable) -> None:
    start.assign(weight)
