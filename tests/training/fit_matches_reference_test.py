"""One and eight steps of `fit` equal N plain optimizers combined by the float64 reference."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
)

NUM_STEPS = 8
PER_REPLICA = 4
TOLERANCE = 1e-6  # absolute

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
}


def compiled(num_local, make_optimizer, mode):
    """A compiled model and N; mode "plain" leaves the optimizer as it is."""
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = make_optimizer()
        if mode != "plain":
            optimizer = tf_adasum.wrap(optimizer, mode=mode)
        model.compile(optimizer=optimizer, loss="mse")
    return model, replicas.num_replicas_in_sync


def check_fit(model, recipe):
    """Fits one and then seven batches, and compares with the reference after each."""
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * recipe.num_replicas
    x, y = examples(NUM_STEPS * batch)
    for first, last in ((0, 1), (1, NUM_STEPS)):
        rows = slice(first * batch, last * batch)
        model.fit(x[rows], y[rows], batch_size=batch, shuffle=False, verbose=0)
        for step in range(first, last):
            rows = slice(step * batch, (step + 1) * batch)
            reference.step(x[rows], y[rows])
        for got, want in zip(model.get_weights(), reference.weights):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    assert_equal_on_ranks(model.trainable_variables)
    assert int(model.optimizer.iterations.numpy()) == NUM_STEPS


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient", "plain"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fit(name, mode, num_local):
    model, number = compiled(num_local, OPTIMIZERS[name], mode)
    check_fit(model, Recipe(small_model, OPTIMIZERS[name], mode, number, num_local))


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_fit_with_weight_decay_and_clipping(mode, num_local):
    """Clipping sees each replica's own gradient; the decay stays outside of what is combined."""
    rate, decay, norm = 0.05, 0.2, 0.5
    model, number = compiled(
        num_local,
        lambda: keras.optimizers.SGD(rate, momentum=0.9, weight_decay=decay, clipnorm=norm),
        mode,
    )
    check_fit(
        model,
        Recipe(
            small_model,
            lambda: keras.optimizers.SGD(rate, momentum=0.9),
            mode,
            number,
            num_local,
            decay=rate * decay,
            clipnorm=norm,
        ),
    )


@pytest.mark.parametrize("num_local", LOCAL)
def test_modes_and_mean_differ(num_local):
    """Guards the tests above: with more than one replica the three ways give three results."""
    weights = {}
    for mode in ("delta", "gradient", "plain"):
        model, number = compiled(num_local, OPTIMIZERS["momentum"], mode)
        x, y = examples(2 * PER_REPLICA * number)
        model.fit(x, y, batch_size=len(x) // 2, shuffle=False, verbose=0)
        weights[mode] = np.concatenate([w.ravel() for w in model.get_weights()])
    gap = min(
        np.abs(weights[a] - weights[b]).max()
        for a, b in (("delta", "gradient"), ("delta", "plain"), ("gradient", "plain"))
    )
    if number == 1:
        assert gap == 0.0
    else:
        assert (everywhere(gap) > 1e-4).all()
