"""Ways to write a loss of a linear model, and the training of it in float64 by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.reference import adasum
from tests.training.replicas import (
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    examples,
    sub_batch,
)

NUM_STEPS = 3
PER_REPLICA = 4
RATE, EPSILON, DECAY = 0.01, 0.1, 0.05
TOLERANCE = 1e-6  # absolute
# Adam's epsilon is large: with a small one its step would hardly tell g from N * g.
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(RATE),
    "adam": lambda: keras.optimizers.Adam(RATE, epsilon=EPSILON),
}


class OwnLoss(keras.Model):
    """compute_loss is the user's: the plain mean over the replica's batch."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return tf.reduce_mean(tf.square(y_pred - y))


class OwnStep(keras.Model):
    """train_step is the user's, with a plain mean."""

    def own_loss(self, y, prediction):
        return tf.reduce_mean(tf.square(prediction - y))

    def optimizers_and_variables(self):
        return [(self.optimizer, self.trainable_variables)]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.own_loss(y, self(x, training=True))
        for optimizer, variables in self.optimizers_and_variables():
            optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


class OwnStepKerasLoss(OwnStep):
    """train_step is the user's, with an object of Keras for the loss."""

    def own_loss(self, y, prediction):
        return keras.losses.MeanSquaredError()(y, prediction)


class OptimizerPerVariable(OwnStep):
    """Holds its optimizers by itself, as GANs do; Keras' own stays unused and is not wrapped."""

    def compile(self, optimizer, **options):
        super().compile(**options)
        config = keras.optimizers.serialize(optimizer)
        self.parts = {"kernel": optimizer, "bias": keras.optimizers.deserialize(config)}

    def optimizers_and_variables(self):
        return [(self.parts[v.name], [v]) for v in self.trainable_variables]


def held_optimizers() -> keras.Model:
    """A linear model that holds its optimizers by itself."""
    inputs = keras.Input((NUM_FEATURES,))
    return OptimizerPerVariable(inputs=inputs, outputs=keras.layers.Dense(NUM_OUTPUTS)(inputs))


class Prediction(keras.Layer):
    """Adds DECAY times the mean square of what passes to the loss."""

    def call(self, inputs):
        self.add_loss(DECAY * tf.reduce_mean(tf.square(inputs)))
        return inputs


# The loss of a replica's batch and its gradients by prediction and kernel.


def of_mean(residuals, prediction, weights, kernel):
    del prediction, weights
    return np.square(residuals).mean(), 2 * residuals / residuals.size, 0 * kernel


def of_sum(residuals, prediction, weights, kernel):
    del prediction, weights
    return np.square(residuals).mean(axis=1).sum(), 2 * residuals / NUM_OUTPUTS, 0 * kernel


def of_weighted(residuals, prediction, weights, kernel):
    del prediction
    rows = weights[:, np.newaxis]
    loss = (rows * np.square(residuals)).mean()
    return loss, 2 * residuals * rows / residuals.size, 0 * kernel


def of_regularized(residuals, prediction, weights, kernel):
    loss, by_prediction, _ = of_mean(residuals, prediction, weights, kernel)
    return loss + DECAY * np.square(kernel).sum(), by_prediction, 2 * DECAY * kernel


def of_added(residuals, prediction, weights, kernel):
    loss, by_prediction, _ = of_mean(residuals, prediction, weights, kernel)
    added = 2 * DECAY * prediction / prediction.size
    return loss + DECAY * np.square(prediction).mean(), by_prediction + added, 0 * kernel


class Kind(NamedTuple):
    """A way to write a loss: the model's class, what compile gets, and what NumPy computes."""

    model: type = keras.Model
    loss: Callable | str = "mse"
    computed: Callable = of_mean
    regularizer: str | None = None
    layers: tuple = ()
    weighted: bool = False


def plain_mean(y, prediction):
    """A loss function that takes the mean itself, so that Keras divides nothing."""
    return tf.reduce_mean(tf.square(prediction - y))


KINDS = {
    "mean": Kind(),
    "sum": Kind(loss=keras.losses.MeanSquaredError(reduction="sum"), computed=of_sum),
    "scalar function": Kind(loss=plain_mean),
    "sample weights": Kind(computed=of_weighted, weighted=True),
    "regularizer": Kind(computed=of_regularized, regularizer=keras.regularizers.L2(DECAY)),
    "add_loss": Kind(computed=of_added, layers=(Prediction,)),
    "own compute_loss": Kind(OwnLoss),
    "own train_step": Kind(OwnStep),
    "own train_step, Keras loss": Kind(OwnStepKerasLoss),
    "own optimizers": Kind(OptimizerPerVariable),
}


def made(replicas, kind: Kind, make_optimizer: Callable, **compile_options) -> keras.Model:
    """The linear model, compiled under the strategy."""
    with replicas.scope():
        keras.utils.set_random_seed(7)
        inputs = keras.Input((NUM_FEATURES,))
        dense = keras.layers.Dense(NUM_OUTPUTS, kernel_regularizer=kind.regularizer)
        outputs = dense(inputs)
        for layer in kind.layers:
            outputs = layer()(outputs)
        model = kind.model(inputs=inputs, outputs=outputs)
        model.compile(optimizer=make_optimizer(), loss=kind.loss, **compile_options)
    return model


class Reference:
    """N replicas in float64: losses, an optimizer for each, Adasum of their changes.

    Args:
        weights: kernel and bias to begin with.
        name: "sgd" or "adam".
        replicas: the strategy.
        prepare: what happens to a replica's own gradient of a variable before its step.
    """

    def __init__(self, weights, name: str, replicas, prepare: Callable = lambda gradient: gradient):
        self.weights = [w.astype(np.float64) for w in weights]
        self._name, self._prepare, self._num_steps = name, prepare, 0
        self._num_local = replicas.extended.num_local_replicas
        self._replicas = range(replicas.num_replicas_in_sync)
        self._moments = [[(0.0, 0.0)] * 2 for _ in self._replicas]

    def losses_and_gradients(self, kind: Kind, batch):
        """Of each replica's own batch; gradients by kernel and bias."""
        for replica in self._replicas:
            x, y, weights = (sub_batch(part, replica, self._num_local) for part in batch)
            kernel, bias = self.weights
            prediction = x.astype(np.float64) @ kernel + bias
            loss, by_prediction, by_kernel = kind.computed(
                prediction - y, prediction, weights, kernel
            )
            yield loss, [x.T @ by_prediction + by_kernel, by_prediction.sum(axis=0)]

    def step(self, kind: Kind, batch) -> float:
        """Returns the mean of the replicas' losses before the step."""
        self._num_steps += 1
        losses, gradients = zip(*self.losses_and_gradients(kind, batch))
        changes = [
            [self._change(replica, index, self._prepare(g)) for index, g in enumerate(own)]
            for replica, own in enumerate(gradients)
        ]
        self.weights = [w + adasum.reduce(list(d)) for w, d in zip(self.weights, zip(*changes))]
        return np.mean(losses)

    def _change(self, replica, index, gradient):
        if self._name == "sgd":
            return -RATE * gradient
        first, second = self._moments[replica][index]
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        self._moments[replica][index] = first, second
        rate = RATE * np.sqrt(1 - 0.999**self._num_steps) / (1 - 0.9**self._num_steps)
        return -rate * first / (np.sqrt(second) + EPSILON)


def batches(number: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """NUM_STEPS global batches of inputs, targets and weights of the examples."""
    x, y = examples(NUM_STEPS * PER_REPLICA * number)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, len(x)).astype(np.float32)
    return list(zip(*(np.split(part, NUM_STEPS) for part in (x, y, weights))))


def check(model, reference, kind: Kind, parts) -> list[float]:
    """Compares the trained model with the reference's weights; returns the losses of its steps."""
    losses = [reference.step(kind, batch) for batch in parts]
    for got, want in zip(model.get_weights(), reference.weights, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    assert_equal_on_ranks(model.trainable_variables)
    return losses


def fit(model, kind: Kind, parts) -> dict[str, list[float]]:
    x, y, weights = (np.concatenate(part) for part in zip(*parts))
    extra = {"sample_weight": weights} if kind.weighted else {}
    options = {"batch_size": len(parts[0][0]), "shuffle": False, "verbose": 0}
    return model.fit(x, y, **options, **extra).history
