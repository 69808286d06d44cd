"""Whatever the kind of loss and of loop, a replica steps by the gradient of its own batch's loss.

The model is linear, so that NumPy has its gradients, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    examples,
    strategy,
    sub_batch,
)
from tf_adasum.communicator import world

NUM_STEPS = 3
PER_REPLICA = 4
RATE, EPSILON, DECAY = 0.01, 0.1, 0.05
TOLERANCE = 1e-6  # absolute
# Adam's epsilon is large: with a small one its step would hardly tell g from N * g.
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(RATE),
    "adam": lambda: keras.optimizers.Adam(RATE, epsilon=EPSILON),
}
local_replicas = pytest.mark.parametrize("num_local", LOCAL)
# For what has many cases: (processes, local replicas) (1,1) (1,2) (2,1).
few_replicas = pytest.mark.parametrize("num_local", LOCAL if world().size == 1 else (1,))


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


@few_replicas
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_fit(kind, name, num_local):
    replicas = strategy(num_local)
    # Both ways in which Keras runs a step; tracing takes the longer time.
    eager = {"run_eagerly": name == "adam"}
    model = made(replicas, kind, lambda: tf_adasum.wrap(OPTIMIZERS[name]()), **eager)
    parts = batches(replicas.num_replicas_in_sync)
    reference = Reference(model.get_weights(), name, replicas)
    history = fit(model, kind, parts)
    losses = check(model, reference, kind, parts)
    if not isinstance(model, OwnStep):  # whose logs are its own
        np.testing.assert_allclose(history["loss"], [np.mean(losses)], rtol=1e-5)


@local_replicas
@pytest.mark.parametrize("name", ["mean", "sum", "regularizer", "own compute_loss"])
def test_evaluate(name, num_local):
    """The mean over the replicas of the losses of their own batches, as in training."""
    kind = KINDS[name]
    replicas = strategy(num_local)
    model = made(replicas, kind, lambda: tf_adasum.wrap(OPTIMIZERS["sgd"]()))
    batch = batches(replicas.num_replicas_in_sync)[0]
    reference = Reference(model.get_weights(), "sgd", replicas)
    want = np.mean([loss for loss, _ in reference.losses_and_gradients(kind, batch)])
    got = model.evaluate(*batch[:2], batch_size=len(batch[0]), verbose=0)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def clipped(gradient):
    return gradient * min(1.0, 0.5 / np.linalg.norm(gradient))


@local_replicas
@pytest.mark.parametrize(
    "make_optimizer, prepare",
    [
        (lambda: tf_adasum.wrap(keras.optimizers.SGD(RATE), "gradient"), lambda gradient: gradient),
        (lambda: tf_adasum.wrap(keras.optimizers.SGD(RATE, clipnorm=0.5)), clipped),
        # In threads of its own where there are several local replicas.
        (
            lambda: tf_adasum.wrap(
                keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE, clipnorm=0.5))
            ),
            clipped,
        ),
    ],
    ids=["gradient mode", "clipping", "loss scaling"],
)
def test_what_a_gradient_passes_through_sees_the_replicas_own(make_optimizer, prepare, num_local):
    kind = KINDS["sum"]
    replicas = strategy(num_local)
    model = made(replicas, kind, make_optimizer)
    parts = batches(replicas.num_replicas_in_sync)
    reference = Reference(model.get_weights(), "sgd", replicas, prepare)
    fit(model, kind, parts)
    check(model, reference, kind, parts)


@local_replicas
@pytest.mark.parametrize("name", ["mean", "sum"])
def test_an_optimizer_that_is_not_wrapped_adds_the_gradients_of_divided_losses(name, num_local):
    """As under MirroredStrategy: Keras divides a mean by N, and leaves a sum."""
    kind = KINDS[name]
    replicas = strategy(num_local)
    model = made(replicas, kind, OPTIMIZERS["sgd"])
    parts = batches(replicas.num_replicas_in_sync)[:1]
    reference = Reference(model.get_weights(), "sgd", replicas)
    _, gradients = zip(*reference.losses_and_gradients(kind, parts[0]))
    fit(model, kind, parts)
    over = np.mean if name == "mean" else np.sum
    for got, start, leaves in zip(model.get_weights(), reference.weights, zip(*gradients)):
        np.testing.assert_allclose(got, start - RATE * over(leaves, axis=0), atol=TOLERANCE)


class OneOfTwoWrapped(OptimizerPerVariable):
    """The bias has an optimizer that is not wrapped."""

    def compile(self, optimizer, **options):
        super().compile(optimizer, **options)
        self.parts["bias"] = OPTIMIZERS["sgd"]()


@local_replicas
def test_an_optimizer_beside_a_wrapped_one_averages(num_local):
    kind = Kind(OneOfTwoWrapped)
    replicas = strategy(num_local)
    model = made(replicas, kind, lambda: tf_adasum.wrap(OPTIMIZERS["sgd"]()))
    parts = batches(replicas.num_replicas_in_sync)[:1]
    reference = Reference(model.get_weights(), "sgd", replicas)
    _, gradients = zip(*reference.losses_and_gradients(kind, parts[0]))
    fit(model, kind, parts)
    for got, start, combine, leaves in zip(
        model.get_weights(),
        reference.weights,
        (adasum.reduce, lambda leaves: np.mean(leaves, axis=0)),
        zip(*gradients),
    ):
        np.testing.assert_allclose(got, start - RATE * combine(list(leaves)), atol=TOLERANCE)


class DividingStep(OwnStep):
    """train_step as tf.distribute's tutorial writes it."""

    def own_loss(self, y, prediction):
        return tf.nn.compute_average_loss(tf.reduce_mean(tf.square(prediction - y), axis=-1))


@local_replicas
def test_own_train_step_that_divides_says_so(num_local):
    kind = Kind(DividingStep)
    replicas = strategy(num_local)
    model = made(replicas, kind, lambda: tf_adasum.wrap(OPTIMIZERS["sgd"](), divided_loss=True))
    parts = batches(replicas.num_replicas_in_sync)
    reference = Reference(model.get_weights(), "sgd", replicas)
    fit(model, kind, parts)
    check(model, reference, kind, parts)


# An own loop's loss by squares and number of replicas, wrap's divided_loss, and by how much the
# replica's own gradient is multiplied on N replicas.
LOOPS = {
    "divides": (lambda squares, number: tf.reduce_mean(squares) / number, None, lambda number: 1),
    "Keras loss": (
        lambda squares, number: keras.losses.MeanAbsoluteError()(0 * squares, squares),
        None,
        lambda number: 1,
    ),
    "compute_average_loss": (
        lambda squares, number: tf.nn.compute_average_loss(tf.reduce_mean(squares, axis=-1)),
        None,
        lambda number: 1,
    ),
    "does not divide": (
        lambda squares, number: tf.reduce_mean(squares),
        None,
        lambda number: number,
    ),
    "says that it does not divide": (
        lambda squares, number: tf.reduce_mean(squares),
        False,
        lambda number: 1,
    ),
}


@few_replicas
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_own_loop(loop, name, num_local):
    loss_of, divided_loss, times = loop
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    model = made(
        replicas, Kind(), lambda: tf_adasum.wrap(OPTIMIZERS[name](), divided_loss=divided_loss)
    )
    variables = model.trainable_variables

    @tf.function
    def step(batch):
        def replica_step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.square(model(x, training=True) - y), number)
            model.optimizer.apply(tape.gradient(loss, variables), variables)

        replicas.run(replica_step, args=batch)

    parts = batches(number)
    x, y = (np.concatenate(part) for part in list(zip(*parts))[:2])
    pipeline = tf.data.Dataset.from_tensor_slices((x, y)).batch(len(parts[0][0]))
    reference = Reference(model.get_weights(), name, replicas, lambda g: g * times(number))
    for batch in replicas.experimental_distribute_dataset(pipeline):
        step(batch)
    check(model, reference, Kind(), parts)
