"""Whatever the kind of loss and of loop, a replica steps by the gradient of its own batch's loss.

The model is linear, so that NumPy has its gradients, in float64.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.linear_model import (
    KINDS,
    OPTIMIZERS,
    RATE,
    TOLERANCE,
    Kind,
    OptimizerPerVariable,
    OwnStep,
    Reference,
    batches,
    check,
    fit,
    made,
)
from tests.training.replicas import LOCAL, strategy
from tf_adasum.collectives.communicator import world

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
# For what has many cases: (processes, local replicas) (1,1) (1,2) (2,1).
few_replicas = pytest.mark.parametrize("num_local", LOCAL if world().size == 1 else (1,))


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


@pytest.mark.parametrize(
    ("unlike", "jit_compile"),
    [(False, False), (True, False), (True, True)],
    ids=["", "unlike shares", "unlike shares, compiled"],
)
@pytest.mark.parametrize("num_local", LOCAL)
def test_losses_of_outputs_are_means_of_all_rows(num_local, unlike, jit_compile):
    """Where replicas have unlike numbers of rows, or none; one alone has plain Keras' means."""
    shares = [1.0] + [3.0] * (world().size - 1)
    replicas = strategy(num_local, batch_share=shares if unlike else None)
    with replicas.scope():
        inputs = keras.Input((3,))
        outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in "ab"}
        # First is one without a loss, of a length of its own.
        model = keras.Model(inputs, {"_": keras.layers.Lambda(lambda x: x[:2])(inputs), **outputs})
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.0))
        losses = {"_": None, "a": "mse", "b": "mae"}
        model.compile(optimizer, losses, jit_compile=jit_compile)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(37, 3)), np.arange(37.0)[:, np.newaxis]
    is_alone = replicas.num_replicas_in_sync == 1
    for rows, batch_size in [(1, 8), (37, 37), (37, 8)][: 2 if is_alone else 3]:
        data = x[:rows], {"_": x[:rows, :1], "a": y[:rows], "b": y[:rows]}
        layers = {name: model.get_layer(name).get_weights() for name in "ab"}
        error = {
            name: x[:rows] @ kernel + bias - y[:rows] for name, (kernel, bias) in layers.items()
        }
        truth = {"a_loss": np.mean(np.square(error["a"])), "b_loss": np.mean(np.abs(error["b"]))}
        truth["loss"] = truth["a_loss"] + truth["b_loss"]
        fitted = model.fit(*data, batch_size=batch_size, verbose=0).history
        assert {name: values[0] for name, values in fitted.items()} == pytest.approx(truth)
        logs = model.evaluate(*data, batch_size=batch_size, verbose=0, return_dict=True)
        assert logs == pytest.approx(truth)
