"""N plain Keras optimizers, each fed its replica's own gradient, combined by NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.reference import adasum, mean
from tests.reference.groups import groups_of_round
from tests.reference.tree import leaves_in_time
from tests.training.replicas import sub_batch


class Recipe(NamedTuple):
    """What the reference is to do.

    Attributes:
        model: makes the model.
        optimizer: makes a plain Keras optimizer, without clipping and weight decay.
        mode: "delta", "gradient", or "plain" for the mean of the gradients.
        num_replicas: N.
        num_local: L.
        decay: weight decay times learning rate, taken off the weights before the step.
        clipnorm: the largest norm of a replica's gradient of one variable, or None.
        accumulate: number of batches whose gradients each replica combines before a step.
        accumulate_by: how it combines them, "mean" or "adasum".
        steps_per_sync: number of steps before the replicas' weights meet; in mode "delta" only. A
            list: of each rank, which lets the batches behind its steps go.
        group_size: how many ranks meet behind the other steps, in groups; 1: none.
        combine: the reduction of a list of all replicas' arrays of one variable.
    """

    model: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    mode: str
    num_replicas: int
    num_local: int
    decay: float = 0.0
    clipnorm: float | None = None
    accumulate: int = 1
    accumulate_by: str = "mean"
    steps_per_sync: int | list[int] = 1
    group_size: int = 1
    combine: Callable[[list[np.ndarray]], np.ndarray] = adasum.reduce


class ReferenceTraining:
    """Trains a plain model by a recipe, replica after replica, without any strategy.

    Args:
        recipe: what to do.
        weights: the initial weights.
    """

    def __init__(self, recipe: Recipe, weights: list[np.ndarray]):
        self.weights = weights
        self._recipe = recipe
        self._model = recipe.model()
        self._gradients = tf.function(self._traced_gradients)
        self._optimizers = [recipe.optimizer() for _ in range(recipe.num_replicas)]
        self._waiting: list[list[list[np.ndarray]]] = []
        self._steps_since_sync = 0
        self._steps = 0
        self._start, self._local = weights, [weights] * recipe.num_replicas

    def step(self, x: np.ndarray, y: np.ndarray) -> None:
        """Takes one global batch; updates `weights` when enough batches are accumulated."""
        replicas = range(self._recipe.num_replicas)
        self._waiting.append([self.gradients(x, y, replica) for replica in replicas])
        if len(self._waiting) < self._recipe.accumulate:
            return
        gradients = [self._prepared([batch[r] for batch in self._waiting]) for r in replicas]
        self._waiting.clear()
        kept = np.float32(1 - self._recipe.decay)
        if self._recipe.mode != "delta":
            combine = self._recipe.combine if self._recipe.mode == "gradient" else mean.reduce
            combined = [combine(leaves) for leaves in zip(*gradients)]
            decayed = [w * kept for w in self.weights]
            self.set_weights(self._stepped(self._optimizers[0], decayed, combined))
            return
        self._start = [w * kept for w in self._start]
        decayed = [[w * kept for w in weights] for weights in self._local]
        self._local = [
            self._stepped(*each) if self._takes_step(replica) else each[1]
            for replica, each in enumerate(zip(self._optimizers, decayed, gradients))
        ]
        self._steps += 1
        self._steps_since_sync += 1
        if self._steps_since_sync == np.max(self._recipe.steps_per_sync):
            self.synchronize()
        elif self._recipe.group_size > 1:
            self._meet_in_groups()

    def _takes_step(self, replica: int) -> bool:
        counts = self._recipe.steps_per_sync
        if isinstance(counts, int):
            return True
        return self._steps_since_sync < counts[replica // self._recipe.num_local]

    def fit(self, x: np.ndarray, y: np.ndarray, num_batches: int) -> None:
        """Takes the examples as so many global batches, in their order."""
        for batch in zip(np.split(x, num_batches), np.split(y, num_batches)):
            self.step(*batch)

    def synchronize(self) -> None:
        """Sets all replicas to the weights of the last time plus Adasum of their changes."""
        self.set_weights(self._moved_by(map(self._recipe.combine, zip(*self._changes()))))

    def _changes(self) -> list[list[np.ndarray]]:
        return [
            [new.astype(np.float64) - old for new, old in zip(weights, self._start)]
            for weights in self._local
        ]

    def _moved_by(self, changes) -> list[np.ndarray]:
        return [(old + change).astype(np.float32) for old, change in zip(self._start, changes)]

    def _meet_in_groups(self) -> None:
        """Each rank reduces what its replicas have, and then the ranks of each group meet."""
        num_local, combine, changes = self._recipe.num_local, self._recipe.combine, self._changes()
        of_ranks = [
            [combine(leaves) for leaves in zip(*changes[first : first + num_local])]
            for first in range(0, len(changes), num_local)
        ]
        earlier, count = self._steps_since_sync - 1, self._recipe.steps_per_sync
        first = self._steps - 1 - earlier  # of this round of steps
        turn = first * (count - 1) // count + earlier
        for group in groups_of_round(len(of_ranks), self._recipe.group_size, turn):
            met = self._moved_by(map(combine, zip(*(of_ranks[rank] for rank in group))))
            for rank in group:
                self._local[rank * num_local : (rank + 1) * num_local] = [met] * num_local

    def adopt_local_weights(self, replica: int) -> None:
        """Gives all replicas the weights that one has within a round."""
        self._local = [self._local[replica]] * self._recipe.num_replicas

    def set_weights(self, weights: list[np.ndarray]) -> None:
        """Gives all replicas these weights."""
        self.weights = self._start = weights
        self._local = [weights] * self._recipe.num_replicas
        self._steps_since_sync = 0

    def gradients(self, x: np.ndarray, y: np.ndarray, replica: int) -> list[np.ndarray]:
        """The gradients of a replica's part of a global batch, at its weights."""
        x, y = (sub_batch(part, replica, self._recipe.num_local) for part in (x, y))
        self._model.set_weights(self._local[replica])
        return [g.numpy() for g in self._gradients(tf.constant(x), tf.constant(y))]

    def _traced_gradients(self, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self._model(x, training=True) - y))
        gradients = tape.gradient(loss, self._model.trainable_variables)
        return [tf.convert_to_tensor(g) for g in gradients]

    def _prepared(self, batches) -> list[np.ndarray]:
        if self._recipe.accumulate_by == "adasum":
            places = np.argsort(leaves_in_time(len(batches)))
            gradients = [adasum.reduce([g[i] for i in places]) for g in zip(*batches)]
        else:
            gradients = [np.mean(leaves, axis=0) for leaves in zip(*batches)]
        if self._recipe.clipnorm:
            gradients = [tf.clip_by_norm(g, self._recipe.clipnorm).numpy() for g in gradients]
        return gradients

    def _stepped(self, optimizer, weights, gradients) -> list[np.ndarray]:
        self._model.set_weights(weights)
        gradients = [tf.constant(np.asarray(g, np.float32)) for g in gradients]
        optimizer.apply(gradients, self._model.trainable_variables)
        return self._model.get_weights()
