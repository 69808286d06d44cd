"""What Keras optimizers can do besides a step, under AdasumStrategy and in both modes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.comparison import (
    MOVING_AVERAGE,
    PER_REPLICA,
    TOLERANCE,
    check_fit,
    check_moving_average,
    check_weights,
    compiled,
    loss_scaled,
    own_step,
)
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import (
    LOCAL,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
both_modes = pytest.mark.parametrize("mode", ["delta", "gradient"])


def momentum(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


@local_replicas
@both_modes
def test_gradient_accumulation(mode, num_local):
    """Every replica averages its own gradients over four batches, then all combine."""
    model, number = compiled(num_local, lambda: momentum(gradient_accumulation_steps=4), mode)
    check_fit(model, Recipe(small_model, momentum, mode, number, num_local, accumulate=4))


@pytest.mark.long
@local_replicas
@both_modes
def test_exponential_moving_average_that_overwrites(mode, num_local):
    model, number = compiled(num_local, lambda: momentum(**MOVING_AVERAGE), mode)
    check_moving_average(model, Recipe(small_model, momentum, mode, number, num_local))


@pytest.mark.long
@local_replicas
def test_swap_ema_weights_callback(num_local):
    model, number = compiled(num_local, lambda: momentum(use_ema=True), "delta")
    x, y = examples(4 * number)
    model.fit(
        x,
        y,
        batch_size=2 * number,
        validation_data=(x, y),
        callbacks=[keras.callbacks.SwapEMAWeights()],
        verbose=0,
    )
    assert_equal_on_ranks(model.trainable_variables)


@local_replicas
@both_modes
def test_overflow_on_one_replica_skips_the_step_everywhere(mode, num_local):
    model, number = compiled(num_local, lambda: loss_scaled(momentum()), mode)
    assert isinstance(model.optimizer.inner_optimizer, keras.optimizers.SGD)
    start = model.get_weights()
    batch = PER_REPLICA * number
    x, y = examples(2 * batch)
    broken = x[:batch].copy()
    broken[0] = np.inf  # in the first sub-batch: replica 0 of rank 0 only
    model.fit(broken, y[:batch], batch_size=batch, shuffle=False, verbose=0)
    for got, want in zip(model.get_weights(), start):
        np.testing.assert_array_equal(got, want)
    assert float(model.optimizer.dynamic_scale.numpy()) == 512.0
    reference = ReferenceTraining(Recipe(small_model, momentum, mode, number, num_local), start)
    reference.step(x[batch:], y[batch:])
    model.fit(x[batch:], y[batch:], batch_size=batch, shuffle=False, verbose=0)
    check_weights(model, reference.weights)
    assert_equal_on_ranks(model.optimizer.variables[:3])


@local_replicas
def test_mixed_float16_scales_the_loss_by_itself(num_local):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model, number = compiled(num_local, momentum, "delta")
    finally:
        keras.config.set_dtype_policy(policy)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    x, y = examples(8 * number)
    losses = model.fit(x, y, batch_size=4 * number, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("delta", {"accumulate": 2}),
        ("gradient", {"accumulate": 2}),
        ("gradient", {"sync": tf_adasum.sync.Deadline(1e6)}),
        ("delta", {"sync": tf_adasum.sync.Lazy(threshold=1e-30)}),
    ],
)
def test_variables_of_float16_train_as_those_of_float32(mode, settings):
    """Gradients behind a LossScaleOptimizer are float32 all the same."""
    weights, start = [], None
    policy = keras.config.dtype_policy()
    for dtype in ("float32", "float16"):
        keras.config.set_dtype_policy(dtype)
        try:
            make_sgd = lambda: loss_scaled(keras.optimizers.SGD(0.2))  # noqa: E731
            model, number = compiled(1, make_sgd, mode, settings=settings)
        finally:
            keras.config.set_dtype_policy(policy)
        assert model.trainable_variables[0].dtype == dtype
        start = start or model.get_weights()
        model.set_weights(start)  # initializers draw others in float16
        x, y = examples(6 * PER_REPLICA * number)
        model.fit(x, y, batch_size=PER_REPLICA * number, shuffle=False, verbose=0)
        weights.append(model.get_weights())
        assert_equal_on_ranks(model.trainable_variables)
    for wanted, got, first in zip(*weights, start):
        moved = np.abs(wanted - first).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=0.1 * moved)


@pytest.mark.long
@local_replicas
@pytest.mark.parametrize("mode", ["delta", "gradient", "plain"])
def test_several_steps_per_execution_change_nothing(mode, num_local):
    weights = []
    for steps in (1, 3):
        model, number = compiled(num_local, momentum, mode, steps_per_execution=steps)
        x, y = examples(7 * PER_REPLICA * number - 3)  # 3 + 3 + 1 batches, the last one short
        model.fit(x, y, batch_size=PER_REPLICA * number, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for one, three in zip(*weights):
        np.testing.assert_allclose(one, three, rtol=0, atol=TOLERANCE)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.long
@local_replicas
@both_modes
def test_run_eagerly(mode, num_local):
    model, number = compiled(num_local, momentum, mode, run_eagerly=True)
    check_fit(model, Recipe(small_model, momentum, mode, number, num_local))


def embedding_model():
    return keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(11, 6),
            keras.layers.Flatten(),
            keras.layers.Dense(NUM_OUTPUTS),
        ]
    )


def token_examples(number):
    random = np.random.default_rng(1)
    tokens = random.integers(0, 11, size=(number, 3)).astype(np.int32)
    return tokens, random.normal(size=(number, NUM_OUTPUTS)).astype(np.float32)


@pytest.mark.long
@local_replicas
@pytest.mark.parametrize("mode", ["delta", "gradient", "plain"])
def test_embedding_gradients(mode, num_local):
    model, number = compiled(num_local, momentum, mode, make_model=embedding_model)
    recipe = Recipe(embedding_model, momentum, mode, number, num_local)
    check_fit(model, recipe, token_examples)


@local_replicas
def test_learning_rate_schedule_and_assignment(num_local):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    model, number = compiled(num_local, lambda: keras.optimizers.SGD(schedule), "delta")
    recipe = Recipe(small_model, lambda: keras.optimizers.SGD(schedule), "delta", number, num_local)
    check_fit(model, recipe)
    model, number = compiled(num_local, momentum, "delta")
    model.optimizer.learning_rate = 0.125
    assert float(model.optimizer.learning_rate.numpy()) == 0.125


@local_replicas
@both_modes
def test_own_training_loop(mode, num_local):
    """strategy.run equals fit."""
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = tf_adasum.wrap(momentum(), mode=mode)
    recipe = Recipe(small_model, momentum, mode, number, num_local)
    reference = ReferenceTraining(recipe, model.get_weights())

    step = own_step(replicas, model, optimizer)
    x, y = examples(3 * PER_REPLICA * number)
    pipeline = tf.data.Dataset.from_tensor_slices((x, y)).batch(PER_REPLICA * number)
    for batch in replicas.experimental_distribute_dataset(pipeline):
        step(batch)
    reference.fit(x, y, 3)
    check_weights(model, reference.weights)
