"""Steps of the experiments' workers are what N gradients and the reference reduction give."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from experiments.method import Method
from experiments.tasks import Examples, Task
from experiments.workers import Workers
from tests.reference import adasum, mean, sum

REFERENCE = {"adasum": adasum, "mean": mean, "sum": sum}
BATCH = 4
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "lamb": lambda: keras.optimizers.Lamb(0.1),
}
# Numbers of workers and their reductions, beside Adasum of three.
OTHER = [(1, "mean"), (5, "adasum"), (4, "mean"), (3, "sum")]


def _task():
    random = np.random.default_rng(0)
    examples = Examples(
        random.standard_normal((67, 6, 6, 1)).astype(np.float32),
        random.integers(10, size=67).astype(np.int32),
    )

    def build():
        kinds = keras.layers
        convolution = kinds.Conv2D(3, 3, activation="relu")
        return keras.Sequential(
            [keras.Input((6, 6, 1)), convolution, kinds.Flatten(), kinds.Dense(10)]
        )

    return Task("small", examples, examples, examples, build)


def _gradients(model, weights, examples, drawn):
    model.set_weights(weights)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(examples.labels[drawn], model(examples.inputs[drawn]))
    variables = [variable.value for variable in model.trainable_variables]
    return [tensor.numpy() for tensor in tape.gradient(value, variables)]


class _Stepper:
    """One worker's own optimizer."""

    def __init__(self, task, make_optimizer, rate):
        self._model, self._optimizer = task.build(), make_optimizer()
        self._optimizer.learning_rate = rate

    def step(self, weights, gradients):
        self._model.set_weights(weights)
        self._optimizer.apply(gradients, self._model.trainable_variables)
        return [new - old for new, old in zip(self._model.get_weights(), weights)]


@pytest.mark.parametrize("mode", ["delta", pytest.param("gradient", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("number", "reduction", "optimizer"),
    [
        *((3, "adasum", optimizer) for optimizer in OPTIMIZERS),
        *((number, reduction, "momentum") for number, reduction in OTHER),
    ],
)
def test_an_epoch_matches_the_reference(number, reduction, optimizer, mode):
    task, rate = _task(), 0.02
    is_elementwise = optimizer != "lamb"
    workers = Workers(
        task, number, Method(reduction, OPTIMIZERS[optimizer], mode, is_elementwise, BATCH)
    )
    workers.reset(5, rate)
    weights = workers.weights()
    workers.train_epoch()
    reduce, model = REFERENCE[reduction].reduce, task.build()
    own = [_Stepper(task, OPTIMIZERS[optimizer], rate) for _ in range(number)]
    order = np.random.default_rng(1005).permutation(67)
    orthogonality = []
    for batches in order[: 67 // (number * BATCH) * number * BATCH].reshape(-1, number, BATCH):
        steps = [_gradients(model, weights, task.train, drawn) for drawn in batches]
        if mode == "delta":
            steps = [one.step(weights, step) for one, step in zip(own, steps)]
        combined = [reduce(list(of_workers)) for of_workers in zip(*steps)]
        squares = [np.sum(np.square(of_workers)) for of_workers in zip(*steps)]
        orthogonality.append([np.sum(x**2) / s for x, s in zip(combined, squares)])
        if mode == "gradient":
            combined = own[0].step(weights, [np.float32(x) for x in combined])
        weights = [weight + step for weight, step in zip(weights, combined)]
    for got, want in zip(workers.weights(), weights):
        np.testing.assert_allclose(got, want, atol=1e-4 if optimizer in ("adam", "lamb") else 2e-5)
    np.testing.assert_allclose(workers.orthogonality, orthogonality, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("local", REFERENCE)
def test_hosts_reduce_their_own_workers_first(local):
    task, rate = _task(), 0.1
    method = Method("adasum", OPTIMIZERS["sgd"], batch=BATCH, hosts=2, local_reduction=local)
    workers = Workers(task, 6, method)
    workers.reset(0, rate)
    weights = workers.weights()
    drawn = np.arange(6 * BATCH, dtype=np.int32).reshape(1, 6, BATCH)
    workers.train(drawn)
    steps = [_gradients(task.build(), weights, task.train, batch) for batch in drawn[0]]
    for new, old, of_workers in zip(workers.weights(), weights, zip(*steps)):
        on_hosts = [REFERENCE[local].reduce(list(of_workers[at : at + 3])) for at in (0, 3)]
        step = -rate * adasum.reduce(on_hosts)
        np.testing.assert_allclose(new - old, step, atol=1e-6)


def test_normalizations_keep_the_mean_of_the_workers_statistics():
    """In a step each worker normalizes by its own batch."""
    plain = _task()

    def build():
        normalization = keras.layers.BatchNormalization(momentum=0.75)
        layers = [keras.Input((6, 6, 1)), normalization, keras.layers.Flatten()]
        return keras.Sequential([*layers, keras.layers.Dense(10)])

    workers = Workers(plain._replace(build=build), 3, Method("mean", OPTIMIZERS["sgd"]))
    workers.reset(0, 0.1)
    drawn = np.arange(3 * BATCH, dtype=np.int32).reshape(1, 3, BATCH)
    workers.train(drawn)
    inputs = plain.train.inputs[drawn[0]].reshape(3, -1).astype(np.float64)
    mean, variance = (weight.numpy() for weight in workers.model.non_trainable_variables)
    np.testing.assert_allclose(mean, [0.25 * inputs.mean()], rtol=1e-5)
    np.testing.assert_allclose(variance, [0.75 + 0.25 * inputs.var(axis=1).mean()], rtol=1e-5)
    assert len(workers.weights()) == 4, "the statistics are none of the weights that are reduced"
    workers.reset(0, 0.1)
    assert workers.model.non_trainable_variables[0].numpy() == 0


def test_beginning_anew_gives_the_same_bits():
    workers = Workers(_task(), 3, Method("adasum", OPTIMIZERS["adam"], batch=BATCH))
    results = []
    for rate in (0.02, 0.5, 0.02):
        workers.reset(1, rate)
        for _ in range(2):
            workers.train_epoch()
        results.append([weight.tobytes() for weight in workers.weights()])
    assert results[0] == results[2] != results[1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_rate_of_zero_stops_and_another_goes_on(optimizer):
    is_elementwise = optimizer != "lamb"
    method = Method("adasum", OPTIMIZERS[optimizer], elementwise=is_elementwise, batch=BATCH)
    workers = Workers(_task(), 2, method)
    workers.reset(1, 0.02)
    seen = [workers.weights()]
    for rate in (0, 0.02):
        workers.set_rate(rate)
        workers.train_epoch()
        seen.append(workers.weights())
    changes = [
        max(np.abs(new - old).max() for new, old in zip(after, before))
        for before, after in itertools.pairwise(seen)
    ]
    assert changes[0] == 0
    assert changes[1] > 1e-3


def test_a_model_that_diverged_is_never_right():
    task = _task()
    workers = Workers(task, 1, Method("mean", OPTIMIZERS["sgd"], batch=BATCH))
    workers.reset(0, 0.1)
    workers.move_to([np.full_like(weight, np.nan) for weight in workers.weights()], 0.1)
    assert workers.accuracy(task.test) == 0
