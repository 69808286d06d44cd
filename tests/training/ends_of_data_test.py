"""Where data of unknown length end, no replica has begun a step that there is not."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy
from tf_adasum.distribute.variables import local_copies, native_variable

EPOCHS, STEPS, PER_REPLICA = 4, 3, 4


def of_unknown_length(replicas):
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensor_slices(examples(STEPS * batch)).batch(batch)
    return dataset.filter(lambda x, y: True)


def generator(replicas):
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(EPOCHS * STEPS * batch)
    for begin in range(0, len(x), batch):
        yield x[begin : begin + batch], y[begin : begin + batch]


def distributed(replicas):
    rows = STEPS * PER_REPLICA * replicas.extended.num_local_replicas
    dataset = tf.data.Dataset.from_tensor_slices(examples(rows)).batch(PER_REPLICA)
    return replicas.distribute_datasets_from_function(lambda context: dataset)


KINDS = [of_unknown_length, pytest.param(generator, marks=pytest.mark.long), distributed]


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("make_data", KINDS)
def test_all_replicas_count_the_steps_with_data(make_data, num_local):
    """Or they go on with unlike learning rates, and in gradient mode with unlike weights."""
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model(keras.layers.Dropout(0.3, seed=5))
        rate = keras.optimizers.schedules.ExponentialDecay(0.05, 1, 0.8)
        optimizer = tf_adasum.wrap(keras.optimizers.Adam(rate), mode="gradient")
        model.compile(optimizer, "mse")
    goes_through = make_data is generator  # which lasts for all epochs, and ends behind them
    for _ in range(1 if goes_through else EPOCHS):
        model.fit(make_data(replicas), verbose=0)
    counts = [int(copy.numpy()) for copy in local_copies(native_variable(optimizer._iterations))]
    assert counts == [EPOCHS * STEPS] * num_local
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize("num_local", LOCAL)
def test_layers_change_nothing_where_there_are_no_data(num_local):
    """Not in `evaluate` either, as the seeds of noise that a model is tested with."""
    replicas = strategy(num_local)
    with replicas.scope():
        calls = Calls()
        model = small_model(calls)
        model.compile(keras.optimizers.SGD(0.1), "mse")
    model.evaluate(of_unknown_length(replicas), verbose=0)
    copies = [copy.numpy() for copy in local_copies(native_variable(calls.number))]
    assert copies == [STEPS] * num_local


class Calls(keras.layers.Layer):
    """Counts its calls, which takes no data."""

    def build(self, input_shape):
        self.number = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False, name="number"
        )

    def call(self, inputs):
        self.number.assign_add(1)
        return inputs
