"""Fits a model under a strategy and the reference beside it, and compares their weights."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np

import tf_adasum
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import assert_equal_on_ranks, examples, small_model, strategy

NUM_STEPS = 8
PER_REPLICA = 4
TOLERANCE = 1e-6  # absolute


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


def check_fit(model: keras.Model, recipe: Recipe, make_examples: Callable = examples) -> None:
    """Fits one and then seven batches, and compares with the reference after each."""
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * recipe.num_replicas
    x, y = make_examples(NUM_STEPS * batch)
    for first, last in ((0, 1), (1, NUM_STEPS)):
        rows = slice(first * batch, last * batch)
        model.fit(x[rows], y[rows], batch_size=batch, shuffle=False, verbose=0)
        for step in range(first, last):
            rows = slice(step * batch, (step + 1) * batch)
            reference.step(x[rows], y[rows])
        if recipe.steps_per_sync > 1:  # as fit does when it ends
            reference.synchronize()
        for got, want in zip(model.get_weights(), reference.weights):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    assert_equal_on_ranks(model.trainable_variables)
    assert int(model.optimizer.iterations.numpy()) == NUM_STEPS // recipe.accumulate
