"""LARS makes the step of its paper, as a Keras optimizer does, alone and under wrap."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tf_adasum.optimizers import LARS

RATE, MOMENTUM, DECAY, TRUST = 0.3, 0.9, 0.01, 0.02


def step(weight, gradient, velocity, decay, adapts):
    """One step in float64; returns the new weight and velocity."""
    divisor = np.linalg.norm(gradient) + decay * np.linalg.norm(weight)
    trust = 1.0
    if adapts and np.linalg.norm(weight) > 0 and divisor > 0:
        trust = TRUST * np.linalg.norm(weight) / divisor
    velocity = MOMENTUM * velocity + RATE * trust * (gradient + decay * weight)
    return weight - velocity, velocity


def lars(**options):
    return LARS(RATE, MOMENTUM, DECAY, TRUST, **options)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float16", 2e-2)])
@pytest.mark.parametrize(
    "name, excluded, decayed",
    [("kernel", False, True), ("bias", True, True), ("gamma", True, False)],
)
def test_five_steps_equal_float64(dtype, tolerance, name, excluded, decayed):
    random = np.random.default_rng(3)
    start, gradients = random.normal(size=12), random.normal(size=(5, 12))
    variable = keras.Variable(start, dtype=dtype, name=name)
    optimizer = lars(exclude_from_layer_adaptation=["bias$", "gamma$"])
    optimizer.exclude_from_weight_decay(var_names=["gamma"])
    weight, velocity = start.astype(dtype).astype(np.float64), np.zeros(12)
    for gradient in gradients.astype(dtype):
        optimizer.apply([tf.constant(gradient)], [variable])
        decay = DECAY if decayed else 0.0
        weight, velocity = step(weight, gradient.astype(np.float64), velocity, decay, not excluded)
    np.testing.assert_allclose(variable.numpy(), weight, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", [(), (3, 2), (2, 3, 4), (3, 3, 2, 4), (2, 2, 2, 2, 2)])
def test_a_step_of_any_rank_equals_float64(shape):
    """A convolution's kernel has four axes, or five."""
    random = np.random.default_rng(4)
    start, gradient = (np.asarray(random.normal(size=shape)) for _ in range(2))
    variable = keras.Variable(start, dtype="float32", name="kernel")
    lars().apply([tf.constant(gradient, tf.float32)], [variable])
    expected, _ = step(start.ravel(), gradient.ravel(), 0.0, DECAY, adapts=True)
    np.testing.assert_allclose(variable.numpy().ravel(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("zero", ["weight", "gradient", "both"])
def test_no_norm_is_divided_by_zero(zero):
    weight = np.zeros(3) if zero in ("weight", "both") else np.ones(3)
    gradient = np.zeros(3) if zero in ("gradient", "both") else np.ones(3)
    variable = keras.Variable(weight, dtype="float32")
    lars().apply([tf.constant(gradient, tf.float32)], [variable])
    expected, _ = step(weight, gradient, np.zeros(3), DECAY, adapts=True)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=0, atol=1e-6)


def test_float16_norms_do_not_overflow():
    variable = keras.Variable(np.full(4, 300.0), dtype="float16")
    lars().apply([tf.fill([4], tf.constant(300.0, tf.float16))], [variable])
    assert np.isfinite(variable.numpy()).all()


def test_rows_of_an_embedding():
    rows = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 1]), tf.constant([4, 3]))
    dense, sparse = (keras.Variable(np.ones((4, 3)), dtype="float32") for _ in range(2))
    lars().apply([tf.convert_to_tensor(rows)], [dense])
    lars().apply([rows], [sparse])
    np.testing.assert_array_equal(sparse.numpy(), dense.numpy())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"momentum": 1.0}, r"momentum to be a number from 0 to below 1\. Received: 1\.0"),
        (
            {"weight_decay": -0.1},
            r"weight_decay to be a number from 0, and finite\. Received: -0\.1",
        ),
        (
            {"trust_coefficient": 0.0},
            r"trust_coefficient to be a number above 0, and finite\. Received: 0\.0",
        ),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LARS(**options)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_saved_model_has_it(tmp_path, wrapped):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = lars(exclude_from_layer_adaptation=["bias$"])
    model.compile(tf_adasum.wrap(optimizer) if wrapped else optimizer, "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").optimizer
    assert isinstance(loaded, LARS)
    assert loaded.get_config() == model.optimizer.get_config()
    for got, expected in zip(loaded.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_layers_without_decay_are_named_as_for_keras_optimizers():
    """By a part of the path that TensorFlow has in its variables' names."""
    body, head = (
        keras.layers.Dense(1, kernel_initializer="ones", name=n) for n in ("body", "head")
    )
    keras.Sequential([keras.Input((1,)), body, head])
    optimizer = lars()
    optimizer.exclude_from_weight_decay(var_names=["head"])
    optimizer.apply([tf.zeros([1, 1])] * 2, [body.kernel, head.kernel])
    assert float(head.kernel[0, 0]) == 1
    assert float(body.kernel[0, 0]) < 1
