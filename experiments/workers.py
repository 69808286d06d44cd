"""N workers in one process that train one model: many cheap workers in place of many ranks."""

from __future__ import annotations

import math

import keras
import numpy as np
import tensorflow as tf

import tf_adasum as adasum
from experiments.encoded_exchange import EncodedExchange
from experiments.exchanging_optimizers import ExchangingOptimizer
from experiments.method import Method
from experiments.tasks import Examples, Task
from experiments.worker_optimizers import SeparateOptimizers, StackedOptimizer
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas


class Workers:
    """N leaves of the library's own reduction, each with its own batches and its own optimizer.

    All have the same weights at the start of a step. Each takes the gradient of its own batch, its
    optimizer makes a step of it, the steps are reduced, and all move to the same new weights: what
    `tf_adasum.wrap(optimizer, mode="delta")` does on N replicas. In gradient mode the gradients are
    reduced, and one optimizer makes one step of the result.

    Args:
        task: what they learn.
        number: N.
        method: how.
        communicator: whose ranks have N such workers each; all ranks if None.

    Attributes:
        model: the common one.
        orthogonality: of the last steps, float32 [steps, variables]: |result|^2 of the reduction
            over the sum of the workers' |step|^2. With Adasum 1 where the steps are orthogonal,
            1 / N where they are parallel and equal.
    """

    def __init__(
        self,
        task: Task,
        number: int,
        method: Method,
        communicator: adasum.Communicator | None = None,
    ):
        self._communicator = communicator
        self._task, self._number, self._batch = task, number, method.batch
        self._reduction, self._mode = method.reduction, method.mode
        self._steps_per_sync = method.steps_per_sync
        self._hosts, self._local_reduction = method.hosts, method.local_reduction
        # A host's workers are all of this rank.
        self._alone = adasum.world().split(color=adasum.rank()) if method.hosts > 1 else None
        self.model = task.build()
        self._weights = [variable.value for variable in self.model.trainable_variables]
        # What normalizations remember of their inputs.
        self._statistics = [variable.value for variable in self.model.non_trainable_variables]
        self._optimizer = self._made_optimizer(method)
        self._encoded = None
        if method.compression is not None:
            self._encoded = EncodedExchange(
                number, self._weights, method.compression, method.keeps_lost
            )
        self._inputs, self._labels = (tf.constant(part) for part in task.train)
        self._steps = tf.function(self._take_steps)

    def _made_optimizer(self, method: Method):
        if method.exchanging is not None:
            return method.exchanging(method.make_optimizer, self._weights, self._number)
        kind = StackedOptimizer if method.elementwise else SeparateOptimizers
        number = self._number if method.mode == "delta" else 1
        return kind(method.make_optimizer, self._weights, number)

    def reset(self, seed: int, rate: float) -> None:
        """Begins anew: weights and the order of the examples from `seed`, learning rate `rate`."""
        keras.utils.set_random_seed(seed)
        fresh = self._task.build()
        self.move_to([variable.numpy() for variable in fresh.trainable_variables], rate)
        for variable, first in zip(self._statistics, fresh.non_trainable_variables):
            variable.assign(first)
        self._order = np.random.default_rng(1000 + seed)

    def weights(self) -> list[np.ndarray]:
        """The common ones."""
        return [weight.numpy() for weight in self._weights]

    def move_to(self, weights: list[np.ndarray], rate: float) -> None:
        """Begins anew from these weights; the optimizers forget what they knew."""
        for weight, value in zip(self._weights, weights):
            weight.assign(value)
        self._optimizer.reset(rate)
        if self._encoded is not None:
            self._encoded.reset()

    def set_rate(self, rate: float) -> None:
        """Takes this learning rate from now on."""
        self._optimizer.set_rate(rate)

    def train_epoch(self) -> float:
        """Takes the steps of one epoch, without the odd rest; returns the mean loss."""
        order = self._order.permutation(len(self._labels)).astype(np.int32)
        rounds = len(order) // (self._number * self._batch * self._steps_per_sync)
        steps = rounds * self._steps_per_sync
        order = order[: steps * self._number * self._batch]
        return self.train(order.reshape(steps, self._number, self._batch))

    def train(self, batches: np.ndarray | tf.Tensor) -> float:
        """Takes the steps of these batches; returns the mean loss.

        Args:
            batches: numbers of examples, int32 [steps, N, batch]; whole rounds of steps_per_sync.
        """
        loss, self.orthogonality = (result.numpy() for result in self._steps(batches))
        return float(loss)

    def accuracy(self, examples: Examples) -> float:
        """Share of the examples that the model tells right; 0 once it has diverged."""
        logits = self.model(examples.inputs, training=False).numpy()
        return float(np.mean(np.isfinite(logits).all(-1) & (logits.argmax(-1) == examples.labels)))

    def loss(self, examples: Examples) -> float:
        """The mean cross entropy; infinite once the model has diverged."""
        logits = self.model(examples.inputs, training=False)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(examples.labels, logits)
        value = float(tf.reduce_mean(loss))
        return value if math.isfinite(value) else math.inf

    def _take_steps(self, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        total, count = tf.constant(0.0), tf.shape(order)[0] // self._steps_per_sync
        orthogonality = tf.TensorArray(tf.float32, count, element_shape=[len(self._weights)])
        # The reduction is the library's own op, which XLA has not.
        is_compiled = self._number <= self._task.compiled_to
        own_steps = tf.function(self._own_steps, jit_compile=is_compiled)
        for i in tf.range(count):
            first = i * self._steps_per_sync
            steps, losses = own_steps(order[first : first + self._steps_per_sync])
            if isinstance(self._optimizer, ExchangingOptimizer):
                self._optimizer.step(steps, self._reduced, self._combine)
            else:
                combined = self._combine(steps)
                orthogonality = orthogonality.write(i, _orthogonality(combined, steps))
                self._move_by(combined)
            total += tf.reduce_mean(losses)
        if isinstance(self._optimizer, ExchangingOptimizer):
            self._optimizer.end(self._combine)
        return total / tf.cast(count, tf.float32), orthogonality.stack()

    def _move_by(self, combined: list[tf.Tensor]) -> None:
        if self._mode == "gradient":
            combined = [step[0] for step in self._optimizer.steps([g[None] for g in combined])]
        for weight, step in zip(self._weights, combined):
            weight.assign_add(step)

    def _own_steps(self, drawn: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        """What every worker hands over, stacked, and the loss of each; `drawn` is [K, N, batch]."""
        if self._steps_per_sync > 1:
            return self._own_rounds(drawn)
        own = self._optimizer.own_weights
        steps, losses, statistics = (
            tf.vectorized_map(lambda drawn: self._gradients(drawn, self._weights), drawn[0])
            if own is None
            else self._gradients_at(own, drawn[0])
        )
        self._remember(statistics)
        if self._mode == "delta":
            steps = self._optimizer.steps(steps)
        return steps, losses

    def _own_rounds(self, drawn: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        of_steps = []

        def gradients_of(step: int, stacked: list[tf.Variable]) -> list[tf.Tensor]:
            gradients, losses, statistics = self._gradients_at(stacked, drawn[step])
            self._remember(statistics)
            of_steps.append(losses)
            return gradients

        changes = self._optimizer.round(gradients_of, self._steps_per_sync)
        return changes, tf.reduce_mean(tf.stack(of_steps), axis=0)

    def _gradients_at(self, stacked: list[tf.Variable], drawn: tf.Tensor) -> tuple:
        """Of every worker at its own weights."""
        weights = [tf.convert_to_tensor(variable) for variable in stacked]
        return tf.vectorized_map(lambda own: self._gradients(own[0], own[1]), (drawn, weights))

    def _remember(self, statistics: list[tf.Tensor]) -> None:
        for variable, of_workers in zip(self._statistics, statistics):
            variable.assign(tf.reduce_mean(of_workers, axis=0))

    def _combine(self, stacked: list[tf.Tensor]) -> list[tf.Tensor]:
        if self._encoded is None:
            return self._reduced(stacked)
        return self._encoded.results(self._reduced(self._encoded.arriving(stacked)))

    def _reduced(self, stacked: list[tf.Tensor]) -> list[tf.Tensor]:
        workers = list(zip(*(tf.unstack(tensor, self._number) for tensor in stacked)))
        if self._hosts > 1:
            on_host = self._number // self._hosts
            workers = [
                allreduce_replicas(
                    workers[first : first + on_host],
                    self._local_reduction,
                    self._alone,
                    f"host {first}",
                )
                for first in range(0, self._number, on_host)
            ]
        return allreduce_replicas(workers, self._reduction, self._communicator, "workers")

    def _gradients(
        self, drawn: tf.Tensor, weights: list
    ) -> tuple[list[tf.Tensor], tf.Tensor, list[tf.Tensor]]:
        """Of one worker: at these weights, gradients, loss, and what normalizations remember."""
        labels = tf.gather(self._labels, drawn)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits, statistics = self.model.stateless_call(
                weights, self._statistics, tf.gather(self._inputs, drawn), training=True
            )
            loss = self._task.loss(labels, logits)
        # Rows of an embedding become the whole table, so that workers' gradients can be stacked.
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, weights))
        return list(gradients), loss, statistics


def _orthogonality(combined: list[tf.Tensor], steps: list[tf.Tensor]) -> tf.Tensor:
    square = [tf.reduce_sum(tf.square(tensor)) for tensor in combined]
    squares = [tf.reduce_sum(tf.square(tensor)) for tensor in steps]
    return tf.math.divide_no_nan(tf.stack(square), tf.stack(squares))
