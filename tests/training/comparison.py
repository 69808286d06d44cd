"""Trains a model under a strategy and the reference beside it, and compares their weights."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import assert_equal_on_ranks, examples, small_model, strategy

NUM_STEPS = 8
PER_REPLICA = 4
TOLERANCE = 1e-6  # absolute
# Options of an optimizer for `check_moving_average`.
MOVING_AVERAGE = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 2}


def compiled(
    num_local: int,
    make_optimizer: Callable[[], keras.optimizers.Optimizer],
    mode: str,
    make_model: Callable[[], keras.Model] = small_model,
    **options,
) -> tuple[keras.Model, int]:
    """A compiled model and N; the options are those of `compiled_under`."""
    replicas = strategy(num_local)
    model = compiled_under(replicas, make_optimizer, mode, make_model, **options)
    return model, replicas.num_replicas_in_sync


def compiled_under(
    replicas: tf_adasum.AdasumStrategy,
    make_optimizer: Callable[[], keras.optimizers.Optimizer],
    mode: str,
    make_model: Callable[[], keras.Model] = small_model,
    settings: dict[str, int] | None = None,
    **compile_options,
) -> keras.Model:
    """A compiled model; mode "plain" leaves its optimizer as it is, else `settings` are wrap's."""
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = make_model()
        optimizer = make_optimizer()
        if mode != "plain":
            optimizer = tf_adasum.wrap(optimizer, mode=mode, **settings or {})
        model.compile(optimizer=optimizer, loss="mse", **compile_options)
    return model


def loss_scaled(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.LossScaleOptimizer:
    """Scales the loss by 1024, and by half as much after each overflow."""
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)


def own_step(
    replicas: tf_adasum.AdasumStrategy,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
) -> Callable:
    """A training step that takes a distributed batch, for a loop in place of `fit`.

    The loss is divided by N, as tf.distribute asks of those who write their own.
    """
    number = replicas.num_replicas_in_sync

    @tf.function
    def step(batch):
        def replica_step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) / number
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

        replicas.run(replica_step, args=batch)

    return step


def check_weights(model: keras.Model, expected: list[np.ndarray]) -> None:
    """Fails unless the weights are as expected, and the same bits on all ranks."""
    for got, want in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    assert_equal_on_ranks(model.trainable_variables)


def check_fit(model: keras.Model, recipe: Recipe, make_examples: Callable = examples) -> None:
    """Fits one and then seven batches, and compares with the reference after each."""
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * recipe.num_replicas
    x, y = make_examples(NUM_STEPS * batch)
    for first, last in ((0, 1), (1, NUM_STEPS)):
        rows = slice(first * batch, last * batch)
        model.fit(x[rows], y[rows], batch_size=batch, shuffle=False, verbose=0)
        reference.fit(x[rows], y[rows], last - first)
        if np.max(recipe.steps_per_sync) > 1:  # as fit does when it ends
            reference.synchronize()
        check_weights(model, reference.weights)
    assert int(model.optimizer.iterations.numpy()) == NUM_STEPS // recipe.accumulate


def check_moving_average(model: keras.Model, recipe: Recipe) -> None:
    """Fits and compares; the optimizer was made with the options MOVING_AVERAGE."""
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * recipe.num_replicas
    x, y = examples(NUM_STEPS * batch)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    average = None
    num_steps = NUM_STEPS // recipe.accumulate
    of_steps = zip(np.split(x, num_steps), np.split(y, num_steps))
    for step, examples_of_step in enumerate(of_steps):
        reference.fit(*examples_of_step, recipe.accumulate)
        new = reference.weights
        average = [0.7 * a + 0.3 * w for a, w in zip(average, new)] if average else new
        if step % 2:
            reference.set_weights([a.astype(np.float32) for a in average])
    check_weights(model, average)  # fit ends with the average


def check_overflow_is_skipped(model: keras.Model, recipe: Recipe) -> None:
    """Fits three batches of which the second overflows on one replica: all leave it out."""
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * recipe.num_replicas
    x, y = examples(3 * batch)
    x[batch] = np.inf  # in the second batch, on replica 0 of rank 0 only
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    for first in (0, 2 * batch):
        reference.step(x[first : first + batch], y[first : first + batch])
    check_weights(model, reference.weights)
    assert float(model.optimizer.dynamic_scale.numpy()) == 512.0
