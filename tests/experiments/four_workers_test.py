"""Four workers are four workers: ranks, replicas, micro-batches and those of the experiments.

Twenty steps of the generated task by `fit` under AdasumStrategy, as many ranks as there are, end at
the weights of the float64 reference; so do the experiments' workers.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from experiments import tasks
from experiments.method import Method
from experiments.workers import Workers
from tests.reference import adasum as reference
from tf_adasum import AdasumStrategy

N, BATCH, STEPS, RATE = 4, 32, 20, 0.1
# Ways to have four workers on so many ranks: replicas of each, and micro-batches of each of those.
WAYS = {1: [(4, 1), (2, 2), (1, 4)], 2: [(2, 1), (1, 2)], 4: [(1, 1)]}[adasum.size()]

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * max(replicas for replicas, _ in WAYS),
)


def _batches():
    """Numbers of examples, [step, worker, batch]."""
    random = np.random.default_rng(3)
    return random.integers(len(tasks.generated().train.labels), size=(STEPS, N, BATCH))


def _first_weights():
    keras.utils.set_random_seed(0)
    return tasks.generated().build().get_weights()


def _loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.fixture(scope="module")
def expected():
    """The weights after the steps, each the Adasum of four plain gradients."""
    task = tasks.generated()
    model, weights = task.build(), _first_weights()
    loss = _loss()
    for drawn in _batches():
        model.set_weights(weights)
        steps = []
        for of_worker in drawn:
            with tf.GradientTape() as tape:
                value = loss(task.train.labels[of_worker], model(task.train.inputs[of_worker]))
            gradients = tape.gradient(value, model.trainable_variables)
            steps.append([-RATE * gradient.numpy() for gradient in gradients])
        weights = [
            weight + reference.reduce(list(of_workers))
            for weight, of_workers in zip(weights, zip(*steps))
        ]
    return weights


def _check(weights, expected):
    for got, want in zip(weights, expected, strict=True):
        assert np.linalg.norm(got - want) <= 1e-5 * np.linalg.norm(want)


@pytest.mark.parametrize(("replicas", "micro_batches"), WAYS)
def test_fit_ends_at_the_reference(replicas, micro_batches, expected):
    task = tasks.generated()
    # The tree counts ranks, in them replicas, in those micro-batches. Of a batch TensorFlow deals
    # the first rows to the first replicas of all ranks, the next to the second ones.
    counted = _batches().reshape(STEPS, adasum.size(), replicas, micro_batches, BATCH)
    drawn = counted.transpose(0, 3, 2, 1, 4).ravel()
    strategy = AdasumStrategy([f"CPU:{i}" for i in range(replicas)])
    with strategy.scope():
        model = task.build()
        optimizer = adasum.wrap(keras.optimizers.SGD(RATE), accumulate=micro_batches)
        model.compile(optimizer, _loss())
    model.set_weights(_first_weights())
    rows = tf.data.Dataset.from_tensor_slices(
        (task.train.inputs[drawn], task.train.labels[drawn])
    ).batch(N // micro_batches * BATCH)
    model.fit(rows, shuffle=False, verbose=0)
    _check(model.get_weights(), expected)


def test_the_experiments_workers_end_at_the_reference(expected):
    """On every rank by itself: its workers would otherwise meet those of the others."""
    method = Method("adasum", lambda: keras.optimizers.SGD(RATE))
    alone = adasum.world().split(color=adasum.rank())
    workers = Workers(tasks.generated(), N, method, alone)
    workers.move_to(_first_weights(), RATE)
    workers.train(_batches().astype(np.int32))
    _check(workers.weights(), expected)
