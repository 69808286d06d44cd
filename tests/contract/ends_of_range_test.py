"""What codecs with a scale make of the largest and the smallest numbers of a dtype."""

import importlib

import numpy as np
import pytest

from tf_adasum import compression
from tf_adasum.collectives.compressed_simulation import arriving

CODECS = {
    "sign": compression.Sign(),
    "quantized 2": compression.Quantized(2),
    "quantized 4": compression.Quantized(4),
    "quantized 8": compression.Quantized(8),
}


@pytest.mark.parametrize("scale", ["largest", "half", "smallest"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CODECS)
def test_finite_values_have_finite_codes_and_residuals(name, dtype, scale):
    limits = np.finfo(dtype)
    scale = {"largest": limits.max, "half": limits.max / 2, "smallest": limits.tiny}[scale]
    x = np.where(np.arange(77) % 3 == 0, -scale, scale).astype(dtype)
    residual = np.zeros_like(x)
    arrived = arriving(CODECS[name], x, 1, residual)
    np.testing.assert_allclose(arrived / scale, np.sign(x), rtol=1e-5)
    assert np.max(np.abs(residual / scale)) < 1e-5

    codec, *bits = name.split()
    q = importlib.import_module(f"tests.reference.codecs.{codec}").q
    np.testing.assert_allclose(arrived / scale, q(x, *map(int, bits)) / scale, rtol=1e-6)


def test_one_largest_number_among_small_ones():
    """The levels of the others are 0, up or down; none is no number, now or later."""
    for dtype in ("float32", "float64"):
        x = np.ones(64, dtype)
        x[5] = np.finfo(dtype).max
        residual = np.zeros_like(x)
        arrived = arriving(compression.Quantized(8), x, 1, residual)
        assert np.isfinite(arrived).all() and np.isfinite(residual).all()
        np.testing.assert_allclose(arrived[5], x[5], rtol=1e-5)
