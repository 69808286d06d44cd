"""A replica without a row in a batch adds nothing: not to weights, statistics, metrics or sums."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum, mean
from tests.training.idle_batches import (
    PER_REPLICA,
    local_replicas,
    momentum,
    parts_of,
    rows_of_two_batches,
)
from tests.training.replicas import (
    assert_equal_on_ranks,
    strategy,
)
from tf_adasum.collectives.communicator import world


def dense_net():
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(9, activation="tanh"),
            keras.layers.BatchNormalization(momentum=0.8, epsilon=0.1),
            keras.layers.Dense(8),
        ]
    )


def convolution():
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(6, 3, padding="same"),
            keras.layers.BatchNormalization(momentum=0.8, epsilon=0.1),
            keras.layers.Conv2D(8, 3, activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(8),
        ]
    )


def plain_mean(y, prediction):
    return tf.reduce_mean(tf.square(prediction - y))


def images(number):
    random = np.random.default_rng(0)
    x = random.normal(size=(number, 4, 4, 1)).astype(np.float32)
    return x, np.sin(x.reshape(number, 16)[:, :8] * 2).astype(np.float32)


class Reference:
    """N models of one replica each; those without rows take no part."""

    def __init__(self, make_model, mode, weights, num_local, number):
        self._mode, self._num_local = mode, num_local
        self.models = [make_model() for _ in range(number)]
        self._optimizers = [momentum() for _ in self.models]
        for model in self.models:
            model.set_weights(weights)

    def step(self, parts):
        """Takes the batches of all replicas, some of them empty."""
        before = [v.numpy() for v in self.models[0].trainable_variables]
        gradients = [self._gradients(*each) for each in zip(self.models, parts)]
        if self._mode != "delta":
            combine = adasum.reduce if self._mode == "gradient" else mean.reduce
            combined = [combine(list(leaves)) for leaves in zip(*gradients)]
            gradients = [combined for _ in self.models]
        changes = []
        for model, optimizer, own, (x, _) in zip(self.models, self._optimizers, gradients, parts):
            variables = model.trainable_variables
            optimizer.apply([tf.constant(g, tf.float32) for g in own], variables)
            counts = self._mode != "delta" or len(x) > 0
            changes.append([(v.numpy() - b) * counts for v, b in zip(variables, before)])
        if self._mode == "delta":
            changes = [[adasum.reduce(list(leaves)) for leaves in zip(*changes)]] * len(parts)
        for model, own in zip(self.models, changes):
            for variable, old, change in zip(model.trainable_variables, before, own):
                variable.assign(old + change)

    def end_epoch(self):
        """What BatchNormalization keeps becomes the mean of all."""
        for of_models in zip(*(model.non_trainable_variables for model in self.models)):
            mean_of_all = np.mean([v.numpy() for v in of_models], axis=0, dtype=np.float64)
            for variable in of_models:
                variable.assign(mean_of_all)

    def _gradients(self, model, part):
        x, y = part
        if not len(x):
            return [np.zeros(v.shape) for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = plain_mean(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        return [g.numpy().astype(np.float64) for g in gradients]


CASES = {
    "dense, delta": (dense_net, "mse", "delta", False),
    "convolution, delta": (convolution, plain_mean, "delta", False),
    "dense, gradient, eager": (dense_net, plain_mean, "gradient", True),
    "convolution, not wrapped": (convolution, "mse", "plain", False),
}


@local_replicas
@pytest.mark.parametrize("case", CASES)
def test_fit_equals_replicas_that_take_no_part(case, num_local):
    """Each epoch ends with a batch that has rows for half of the replicas."""
    make_model, loss, mode, eager = CASES[case]
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = make_model()
        optimizer = momentum() if mode == "plain" else tf_adasum.wrap(momentum(), mode=mode)
        model.compile(optimizer, loss, metrics=["mae"], run_eagerly=eager)
    reference = Reference(make_model, mode, model.get_weights(), num_local, number)
    x, y = images(rows_of_two_batches(number))
    options = {"batch_size": PER_REPLICA * number, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, epochs=2, **options).history
    for _ in range(2):
        for parts in parts_of(x, y, num_local, number):
            reference.step(parts)
        reference.end_epoch()
    assert all(np.isfinite(values).all() for values in history.values())
    expected = reference.models[0].trainable_variables
    for got, want in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=0, atol=2e-6)
    assert_equal_on_ranks(model.trainable_variables)
    for index, variable in enumerate(model.non_trainable_variables):
        for local, copy in enumerate(variable.value.values):
            own = reference.models[world().rank * num_local + local].non_trainable_variables
            np.testing.assert_allclose(copy.numpy(), own[index].numpy(), rtol=0, atol=2e-6)


@local_replicas
def test_evaluate_and_predict_convolutions(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = convolution()
        model.compile("sgd", "mse", metrics=["mae"])
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = images(batch + 1)
    loss, error = model.evaluate(x, y, batch_size=batch, verbose=0)
    alone = convolution()
    alone.set_weights(model.get_weights())
    prediction = alone(x).numpy()
    np.testing.assert_allclose(loss, np.square(prediction - y).mean(), rtol=1e-5)
    np.testing.assert_allclose(error, np.abs(prediction - y).mean(), rtol=1e-5)
    rows = model.predict(x, batch_size=batch, verbose=0)
    np.testing.assert_allclose(rows, prediction, rtol=0, atol=1e-5)


@local_replicas
@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
def test_train_on_batch_without_rows(eager, num_local):
    """The last rank has none. A rank's replicas get the same batch: their change is its own."""
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = convolution()
        model.compile(tf_adasum.wrap(momentum()), plain_mean, run_eagerly=eager)
    number = replicas.num_replicas_in_sync
    reference = Reference(convolution, "delta", model.get_weights(), num_local, number)
    x, y = images(3 * world().size)
    parts = [(x[3 * r : 3 * r + 3], y[3 * r : 3 * r + 3]) for r in range(world().size - 1)]
    parts.append((x[:0], y[:0]))
    for _ in range(2):
        model.train_on_batch(*parts[world().rank])
        reference.step([part for part in parts for _ in range(num_local)])
    expected = reference.models[0].trainable_variables
    for got, want in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=0, atol=2e-6)
    assert_equal_on_ranks(model.trainable_variables)


class Statistics(keras.Layer):
    """Keeps the mean of its inputs over all replicas in three ways, and counts its calls."""

    def build(self, shape):
        options = {"shape": (), "initializer": "zeros", "trainable": False}
        self.assigned = self.add_weight(aggregation="mean", **options)
        self.total = self.add_weight(aggregation="sum", **options)
        self.reduced = self.add_weight(**options)
        self.calls = self.add_weight(dtype="int64", **options)

    def call(self, inputs, training=False):
        if training:
            own = tf.reduce_mean(inputs)
            self.assigned.assign(own)
            self.total.assign(tf.cast(tf.shape(inputs)[0], tf.float32))
            context = tf.distribute.get_replica_context()
            self.reduced.assign(context.all_reduce(tf.distribute.ReduceOp.MEAN, own))
            self.calls.assign_add(1)
        return inputs


@local_replicas
def test_statistics_and_sums_leave_idle_replicas_out(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        statistics = Statistics()
        normalization = keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
        model = keras.Sequential([keras.Input((3,)), statistics, normalization])
        model.compile(tf_adasum.wrap(momentum()), "mse")
    x = np.random.default_rng(0).normal(size=(rows_of_two_batches(number), 3)) + 1
    options = {"batch_size": number * PER_REPLICA, "shuffle": False, "verbose": 0}
    model.fit(x, x, **options)
    last = x[PER_REPLICA * number :]
    has_rows = [len(part) > 0 for part, _ in list(parts_of(x, x, num_local, number))[-1]]
    for local in range(num_local):
        copies = {
            name: getattr(statistics, name).value.values[local].numpy()
            for name in ("assigned", "total", "reduced", "calls")
        }
        assert copies["assigned"] == pytest.approx(last.mean(), abs=1e-6)
        assert copies["total"] == len(last)
        assert copies["calls"] == 2
        if has_rows[world().rank * num_local + local]:
            assert copies["reduced"] == pytest.approx(last.mean(), abs=1e-6)
        moving = normalization.moving_mean.value.values[local].numpy()
        np.testing.assert_allclose(moving, last.mean(axis=0), atol=1e-6)
    assert_equal_on_ranks(model.trainable_variables)


@local_replicas
def test_local_steps_leave_idle_replicas_where_they_are(num_local):
    """Two steps a round, the second without rows on half of the replicas; in float64."""
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(tf_adasum.wrap(momentum(), steps_per_sync=2), "mse")
    weight = model.get_weights()[0].astype(np.float64)
    random = np.random.default_rng(0)
    x = random.normal(size=(rows_of_two_batches(number), 8)).astype(np.float32)
    y = random.normal(size=(len(x), 1)).astype(np.float32)
    model.fit(x, y, batch_size=number * PER_REPLICA, shuffle=False, verbose=0)
    local = [weight.copy() for _ in range(number)]
    velocity = [np.zeros_like(weight) for _ in range(number)]
    for parts in parts_of(x, y, num_local, number):
        for replica, (rows, targets) in enumerate(parts):
            if len(rows):
                gradient = 2 * rows.T @ (rows @ local[replica] - targets) / len(rows)
                velocity[replica] = 0.9 * velocity[replica] - 0.05 * gradient
                local[replica] = local[replica] + velocity[replica]
    want = weight + adasum.reduce([each - weight for each in local])
    np.testing.assert_allclose(model.get_weights()[0], want, rtol=0, atol=1e-6)
