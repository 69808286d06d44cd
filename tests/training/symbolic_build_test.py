"""Models that can't be called with the x of the data train as they do on one device."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, NUM_OUTPUTS, assert_equal_on_ranks, examples, strategy


class CalledWithPairs(keras.Model):
    """The x of the data would not do."""

    def __init__(self):
        super().__init__()
        self.layer = keras.layers.Dense(NUM_OUTPUTS)

    def call(self, inputs):
        first, second = inputs
        return self.layer(keras.ops.concatenate([first, second], -1))


class CalledByItsStep(CalledWithPairs):
    """Its `train_step` makes what it is called with."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self([x, 2 * x]) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"error": loss}


def _made(make: Callable[[], keras.Model], num_local: int, **options) -> tuple[keras.Model, int]:
    """A compiled model, and the number of its replicas."""
    replicas = strategy(num_local)
    with replicas.scope():
        model = make()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.05)), **options)
    return model, replicas.num_replicas_in_sync


@pytest.mark.parametrize("num_local", LOCAL)
def test_a_model_that_only_its_own_step_can_call(num_local):
    model, number = _made(CalledByItsStep, num_local)
    x, y = examples(8 * number)
    errors = model.fit(x, y, len(x) // 2, epochs=4, verbose=0).history["error"]
    assert errors[-1] < errors[0]
    assert_equal_on_ranks(model.trainable_variables)


class EvaluatedByItsStep(CalledWithPairs):
    """Its `test_step` makes what it is called with."""

    def test_step(self, data):
        x, y = data
        return {"error": tf.reduce_mean(tf.square(self([x, 2 * x]) - y))}


@pytest.mark.parametrize("num_local", LOCAL)
def test_a_model_that_is_evaluated_as_only_its_own_step_can_call_it(num_local):
    model, number = _made(EvaluatedByItsStep, num_local)
    x, y = examples(4 * number)
    logs = model.evaluate(x, y, len(x), verbose=0, return_dict=True)
    assert_equal_on_ranks(model.trainable_variables)
    wanted = np.mean(np.square(model([x, 2 * x]).numpy() - y))
    np.testing.assert_allclose(logs["error"], wanted, rtol=1e-5)


def test_a_model_that_nobody_calls_rightly_is_told_as_keras_does():
    model, number = _made(CalledWithPairs, 1, loss="mse")
    x, y = examples(8 * number)
    with pytest.raises(RuntimeError, match="Unable to automatically build the model"):
        model.fit(x, y, len(x), verbose=0)


class OfNumbers(keras.Model):
    """Knows the shape of its inputs, which the data do not tell."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(10, 4)
        self.layer = keras.layers.Dense(1)
        self.embedding.build(None)
        self.layer.build((None, 4))
        self.built = True

    def call(self, inputs):
        rows = self.embedding(tf.ensure_shape(inputs, [None, 3]))
        return self.layer(keras.ops.mean(rows, 1))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("num_local", LOCAL)
def test_data_of_unknown_shapes_and_unequal_batches(num_local, dtype):
    """The build meets batches of replicas whose lengths differ, which nobody may add up."""
    replicas = strategy(num_local)
    rows = 4 * replicas.num_replicas_in_sync

    def batches():
        for length in (rows - 1, rows):
            numbers = np.arange(3 * length).reshape(length, 3) % 10
            yield numbers.astype(dtype), np.ones((length, 1), np.float32)

    data = tf.data.Dataset.from_generator(batches, output_types=(dtype, tf.float32))
    data = data.map(lambda x, y: (x, tf.ensure_shape(y, [None, 1])))
    with replicas.scope():
        model = OfNumbers()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), "mse")
    losses = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
