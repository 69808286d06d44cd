"""One and eight steps of `fit` equal N plain optimizers combined by the float64 reference."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.training.comparison import PER_REPLICA, check_fit, compiled
from tests.training.reference_training import Recipe
from tests.training.replicas import LOCAL, everywhere, examples, small_model
from tf_adasum.optimizers import LARS

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "lars": lambda: LARS(0.1, weight_decay=0.01, trust_coefficient=0.1),
}


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


@pytest.mark.long
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
