"""N plain Keras optimizers, each fed its replica's own gradient, combined by NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.reference import adasum, mean
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
        accumulate: number of batches whose gradients each replica averages before a step.
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
        self._optimizers = [recipe.optimizer() for _ in range(recipe.num_replicas)]
        self._waiting: list[list[list[np.ndarray]]] = []

    def step(self, x: np.ndarray, y: np.ndarray) -> None:
        """Takes one global batch; updates `weights` when enough batches are accumulated."""
        replicas = range(self._recipe.num_replicas)
        self._waiting.append([self._gradients(x, y, replica) for replica in replicas])
        if len(self._waiting) < self._recipe.accumulate:
            return
        gradients = [self._prepared([batch[r] for batch in self._waiting]) for r in replicas]
        self._waiting.clear()
        self.weights = [(w * np.float32(1 - self._recipe.decay)) for w in self.weights]
        if self._recipe.mode != "delta":
            combine = self._recipe.combine if self._recipe.mode == "gradient" else mean.reduce
            combined = [combine(leaves) for leaves in zip(*gradients)]
            self.weights = self._stepped(self._optimizers[0], combined)
            return
        deltas = [
            [new.astype(np.float64) - old for new, old in zip(self._stepped(o, g), self.weights)]
            for o, g in zip(self._optimizers, gradients)
        ]
        self.weights = [
            (old + self._recipe.combine(leaves)).astype(np.float32)
            for old, leaves in zip(self.weights, zip(*deltas))
        ]

    def _gradients(self, x, y, replica) -> list[np.ndarray]:
        x, y = (sub_batch(part, replica, self._recipe.num_local) for part in (x, y))
        self._model.set_weights(self.weights)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self._model(x, training=True) - y))
        gradients = tape.gradient(loss, self._model.trainable_variables)
        return [tf.convert_to_tensor(g).numpy() for g in gradients]

    def _prepared(self, batches) -> list[np.ndarray]:
        gradients = [np.mean(leaves, axis=0) for leaves in zip(*batches)]
        if self._recipe.clipnorm:
            gradients = [tf.clip_by_norm(g, self._recipe.clipnorm).numpy() for g in gradients]
        return gradients

    def _stepped(self, optimizer, gradients) -> list[np.ndarray]:
        self._model.set_weights(self.weights)
        gradients = [tf.constant(np.asarray(g, np.float32)) for g in gradients]
        optimizer.apply(gradients, self._model.trainable_variables)
        return self._model.get_weights()
