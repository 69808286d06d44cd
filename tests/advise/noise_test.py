"""Noise scale and what follows from it, against distributions whose G and Sigma are known."""

import math

import numpy as np
import pytest

from tf_adasum import simulate
from tf_adasum.advise.noise import Noise, estimate, expected_adasum, wasted_epochs

RANDOM = np.random.default_rng(7)
# The loss |w - x|^2 / 2 of one example x ~ N(-G, Sigma) at w = 0 has the gradient -x.
GRADIENT = RANDOM.standard_normal(40)
DEVIATIONS = np.linspace(0.1, 3, 40)  # Sigma is diagonal
TRACE = float((DEVIATIONS**2).sum())


def _gradients(number, batch):
    draws = RANDOM.standard_normal((number, batch, 40)) * DEVIATIONS
    return GRADIENT + draws.mean(axis=1)


@pytest.mark.parametrize(("small", "big"), [(1, 2), (4, 32)])
def test_estimates_are_without_bias(small, big):
    norms = [np.mean(_gradients(6_000, batch) ** 2, axis=0) for batch in (small, big)]
    noise = estimate(small, norms[0], big, norms[1])
    assert noise.squared_gradient.sum() == pytest.approx((GRADIENT**2).sum(), rel=0.05)
    assert noise.trace.sum() == pytest.approx(TRACE, rel=0.05)
    assert noise.scale == pytest.approx(TRACE / (GRADIENT**2).sum(), rel=0.08)
    assert noise.trace == pytest.approx(DEVIATIONS**2, rel=0.3, abs=0.5)


def test_a_gradient_lost_in_noise_has_no_finite_scale():
    assert math.isinf(estimate(1, np.array([1.0]), 2, np.array([0.4])).scale)


def test_wasted_epochs_are_those_of_the_paper():
    """E(B) = E_min (1 + B / B_noise), so E(8 * 32) / E(32) with B_noise = 100."""
    assert wasted_epochs(8, 32, 100.0) == pytest.approx((1 + 256 / 100) / (1 + 32 / 100) - 1)
    assert wasted_epochs(1, 32, 100.0) == 0
    assert wasted_epochs(1024, 32, math.inf) == 0


@pytest.mark.parametrize("batch", [1, 16, 256])
@pytest.mark.parametrize("ranks", [2, 8, 32])
def test_expected_adasum_is_that_of_drawn_gradients(ranks, batch):
    """Two variables, of 40 and 400 elements, of which the second has more noise."""
    longer = np.repeat(GRADIENT, 10) / 10
    noise = Noise(np.array([(GRADIENT**2).sum(), (longer**2).sum()]), np.array([TRACE, 400.0]))
    kept = had = along = 0.0
    for _ in range(40):
        leaves = [
            [_gradients(1, batch)[0], longer + RANDOM.standard_normal(400) / math.sqrt(batch)]
            for _ in range(ranks)
        ]
        combined = simulate(leaves)[0]
        kept += sum((vector**2).sum() for vector in combined)
        had += sum((vector**2).sum() for leaf in leaves for vector in leaf)
        along += GRADIENT @ combined[0] + longer @ combined[1]
    expected = expected_adasum(noise, batch, ranks)
    assert expected.orthogonality == pytest.approx(kept / had, rel=0.1)
    gain = along / 40 / noise.squared_gradient.sum()
    assert expected.gain == pytest.approx(gain, rel=0.1)
    assert 1 / ranks < expected.orthogonality < 1
    assert 1 < expected.gain < ranks


def test_limits_of_expected_adasum():
    parallel = Noise(np.array([1.0]), np.array([0.0]))
    assert expected_adasum(parallel, 8, 16) == pytest.approx((1 / 16, 1))
    orthogonal = Noise(np.array([1e-12]), np.array([1.0]))
    assert expected_adasum(orthogonal, 8, 16) == pytest.approx((1, 16))
    between = [expected_adasum(parallel, 8, ranks).orthogonality for ranks in (2, 3, 4)]
    assert between == sorted(between, reverse=True)
