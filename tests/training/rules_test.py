"""Rules of other reductions than Adasum and mean: what they say of gradients and of changes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, strategy

RATE = 0.25
EXTREMES = {"max": np.max, "min": np.min, "product": np.prod}


def _model(replicas, optimizer):
    """A weighted sum of three inputs, which is the loss: its gradient is the mean of the rows."""
    with replicas.scope():
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
        )
        model.compile(optimizer(), lambda _, outputs: tf.reduce_mean(outputs, axis=-1))
    return model


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("reduction", EXTREMES)
@pytest.mark.parametrize("momentum", [0.0, 0.5], ids=["", "momentum"])
def test_changes_are_added_as_the_rule_reduces_them(reduction, momentum, num_local):
    """w + R(d_1, ..., d_N), whether Keras' rule adds its changes or subtracts something."""
    replicas = strategy(num_local, reductions=[(".", reduction)])
    number = replicas.num_replicas_in_sync
    model = _model(
        replicas,
        lambda: tf_adasum.wrap(keras.optimizers.SGD(RATE, momentum=momentum), mode="delta"),
    )
    rows = np.random.default_rng(4).normal(size=(number, 3)).astype(np.float32)
    model.fit(rows, np.zeros(number), batch_size=number, shuffle=False, verbose=0)
    expected = 1 + EXTREMES[reduction](-RATE * rows.astype(np.float64), axis=0)
    np.testing.assert_allclose(model.get_weights()[0][:, 0], expected, rtol=1e-5)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize("num_local", LOCAL)
def test_a_frozen_layer_stays_under_a_sum_of_rounds(num_local):
    """It has no gradient, so no weight decay; a sum would count one for each replica."""
    replicas = strategy(num_local, reductions=[(".", "sum")])
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        layers = [keras.layers.Dense(2, name=name) for name in ("first", "second")]
        model = keras.Sequential([keras.Input((3,)), *layers])
        optimizer = keras.optimizers.SGD(0.01, weight_decay=0.5)
        model.compile(tf_adasum.wrap(optimizer, steps_per_sync=2), "mse")
    x = np.random.default_rng(5).normal(size=(4 * number, 3)).astype(np.float32)
    model.fit(x, x[:, :2], batch_size=2 * number, shuffle=False, verbose=0)  # makes the variables
    layers[0].trainable = False
    with replicas.scope():
        model.compile(model.optimizer, "mse")
    before = [weight.copy() for weight in model.get_weights()]
    model.fit(x, x[:, :2], batch_size=2 * number, shuffle=False, verbose=0)
    after = model.get_weights()
    for i in range(2):
        np.testing.assert_array_equal(after[i], before[i])
        assert (after[2 + i] != before[2 + i]).all()
    assert_equal_on_ranks(model.trainable_variables)
