"""Batches with a scalar in them train as in plain Keras: rows are dealt, all have the scalar."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    examples,
    strategy,
)
from tests.training.unlike_batches import BATCH, RATE, SHARES, assert_near
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.scalar_parts import holds_scalars

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
OF_ROWS = {"loss": "mse", "metrics": ["mae"]}
OFF = tf.data.experimental.AutoShardPolicy.OFF


def without_shards(data):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = OFF
    return data.with_options(options)


class Scaled(keras.Model):
    """Its outputs are multiplied by the scalar of its inputs, whatever the name of that."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(NUM_OUTPUTS)
        self.dense.build((None, NUM_FEATURES))

    def call(self, inputs):
        scalar, rows = sorted(inputs.values(), key=lambda each: each.shape.rank)
        tf.debugging.assert_positive(scalar)
        return self.dense(rows) * scalar


def made(kind, optimizer=None, **settings):
    keras.utils.set_random_seed(7)
    model = kind()
    model.compile(optimizer or keras.optimizers.SGD(RATE), **settings)
    return model


def annealed(rows, batch):
    """Batches of which each has a factor of its own; the last one may be shorter."""
    factors = tf.data.Dataset.range(1, 1000).map(lambda step: 1 / tf.cast(step, tf.float32))
    pairs = tf.data.Dataset.from_tensor_slices(examples(rows)).batch(batch)
    data = tf.data.Dataset.zip(pairs, factors)
    # Keras' `fit` counts the rows of the first part by its name.
    return data.map(lambda pair, beta: ({"a": pair[0], "beta": beta}, pair[1]))


def assert_as_plain(replicas, rows, batch, **settings):
    """Fails unless `fit`, `evaluate` and `predict` do what they do in plain Keras."""
    data, plain = annealed(rows, batch), made(Scaled, **OF_ROWS)
    with replicas.scope():
        model = made(Scaled, **OF_ROWS, **settings)
    history, expected = (each.fit(data, epochs=2, verbose=0).history for each in (model, plain))
    assert_near(model.get_weights(), plain.get_weights())
    assert_equal_on_ranks(model.trainable_variables)
    np.testing.assert_allclose(history["mae"], expected["mae"], rtol=1e-5)
    logs, wanted = (each.evaluate(data, verbose=0) for each in (model, plain))
    np.testing.assert_allclose(logs, wanted, rtol=1e-5)
    scalar_first = data.map(lambda x, y: {"x": x["a"], "beta": x["beta"]})
    found, wanted = (each.predict(scalar_first, verbose=0) for each in (model, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@local_replicas
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.long),
        pytest.param({"steps_per_execution": 2}, marks=pytest.mark.long),
    ],
    ids=["", "eager", "two steps"],
)
def test_equal_parts_make_the_steps_of_one_device(settings, num_local):
    replicas = strategy(num_local)
    batch = 4 * replicas.num_replicas_in_sync
    assert_as_plain(replicas, 3 * batch, batch, **settings)


@local_replicas
@pytest.mark.parametrize("left", [1, 5])
def test_shares_make_the_steps_of_one_device(left, num_local):
    """Also of a last batch that has fewer rows than there are replicas."""
    replicas = strategy(num_local, reductions=[(".", "mean")], batch_share=SHARES)
    assert_as_plain(replicas, 2 * BATCH + left, BATCH)


def rows_of(replicas, data):
    """Of each step, the rows and the scalar, if there is one, of each of this rank's replicas."""
    results = replicas.experimental_local_results
    steps = []
    for batch in replicas.experimental_distribute_dataset(data):
        rows = [np.ravel(getattr(own, "values", own)) for own in results(batch["rows"])]
        scalars = [float(own) for own in results(batch["scalar"])] if "scalar" in batch else []
        steps.append((rows, scalars))
    return steps


@local_replicas
@pytest.mark.parametrize("kind", ["dense", "ragged", "of unknown shape"])
def test_rows_are_dealt_as_those_without_a_scalar(kind, num_local):
    replicas = strategy(num_local)
    batch = 5 * world().size * num_local - 1
    numbers = tf.range(3 * batch + 1)[:, tf.newaxis]
    numbers = tf.RaggedTensor.from_tensor(numbers) if kind == "ragged" else numbers
    data = tf.data.Dataset.from_tensor_slices({"rows": numbers}).batch(batch)
    if kind == "of unknown shape":
        data = data.map(lambda each: {"rows": tf.numpy_function(np.copy, [each["rows"]], tf.int32)})
    expected = rows_of(replicas, data)
    found = rows_of(replicas, data.map(lambda each: {**each, "scalar": 0.5}))
    assert len(found) == len(expected)
    for (own, scalars), (wanted, _) in zip(found, expected):
        for left, right in zip(own, wanted, strict=True):
            np.testing.assert_array_equal(left, right)
        assert scalars == [0.5] * num_local


@local_replicas
def test_each_rank_deals_its_replicas_the_whole_of_what_is_not_sharded(num_local):
    replicas = strategy(num_local)
    batch = 3 * replicas.num_replicas_in_sync
    numbers = np.arange(2 * batch) + 100 * world().rank
    data = tf.data.Dataset.from_tensor_slices({"rows": numbers}).batch(batch)
    data = without_shards(data.map(lambda each: {**each, "scalar": 0.5}))
    steps = rows_of(replicas, data)
    assert len(steps) == 2 * world().size
    np.testing.assert_array_equal(np.ravel([rows for rows, _ in steps]), numbers)


def test_examples_that_nobody_has_batched_have_no_part_that_all_get():
    """Half of the features of each would go to each replica."""
    data = tf.data.Dataset.from_tensor_slices(([[1.0, 2.0]], [3.0]))
    assert not holds_scalars(data) and holds_scalars(data.map(lambda x, y: {"x": x, "y": y}))


class Dummy(keras.Model):
    """Its data have no row: it makes its own, of the number of the element."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(NUM_OUTPUTS)
        self.dense.build((None, NUM_FEATURES))

    def call(self, number):
        x, y = (tf.constant(each) for each in examples(6))
        return self.dense(x) - y / (1 + tf.cast(number, tf.float32))

    def train_step(self, number):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self(number) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}

    def test_step(self, number):
        return {"loss": tf.reduce_mean(self(number) ** 2)}


NUMBERS = {
    "known": lambda: tf.data.Dataset.range(5),
    "unknown": lambda: tf.data.Dataset.range(5).filter(lambda number: True),
    "endless": lambda: tf.data.Dataset.range(5).repeat(),
    "not sharded": lambda: without_shards(tf.data.Dataset.range(5)),
}


@local_replicas
@pytest.mark.parametrize(
    ("number", "shares"), [*((number, None) for number in NUMBERS), ("known", SHARES)]
)
def test_every_replica_gets_every_scalar(number, shares, num_local):
    data, plain = NUMBERS[number](), made(Dummy)
    with strategy(num_local, batch_share=shares).scope():
        model = made(Dummy, tf_adasum.wrap(keras.optimizers.SGD(RATE), mode="gradient"))
    for each in (model, plain):
        each.fit(data, epochs=2, steps_per_epoch=5 if number == "endless" else None, verbose=0)
    assert_near(model.get_weights(), plain.get_weights())
    steps = 5 if number == "endless" else None
    logs, wanted = (each.evaluate(data, steps=steps, verbose=0) for each in (model, plain))
    np.testing.assert_allclose(logs, wanted, rtol=1e-5)
    found, wanted = (each.predict(data, steps=steps, verbose=0) for each in (model, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
