"""The sketch codec: its reference for all rows, what it finds, and that nothing waits for ever."""

import numpy as np
import pytest

from tests.reference.codecs.sketch import q
from tests.reference.sketched import planted
from tf_adasum import compression
from tf_adasum.collectives.compressed_simulation import arriving


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sketches_of_any_number_of_rows_are_the_references(dtype, rows):
    x = np.random.default_rng(rows).normal(size=5000).astype(dtype)
    arrived = arriving(compression.Sketch(0.02, 0.1, rows), x, 1, None)
    assert arrived.tobytes() == q(x, 0.02, 0.1, rows).tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_of_planted_values_a_sketch_finds_nine_in_ten(seed):
    n, count = 50_000, 50
    x, places = planted(seed, n, count)
    arrived = arriving(compression.Sketch(4 * count / n, 0.04), x, 1, None)
    assert np.count_nonzero(arrived[places]) >= 0.9 * count


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_sketch_finds_negative_values_as_positive_ones(rows):
    x = np.random.default_rng(rows).normal(size=5000)
    codec = compression.Sketch(0.02, 0.1, rows)
    assert arriving(codec, -x, 1, None).tobytes() == (0 - arriving(codec, x, 1, None)).tobytes()


def test_no_place_is_hidden_for_ever_by_those_that_share_its_cells():
    x = np.random.default_rng(0).normal(size=20_000).astype("float32")
    residual, is_sent = np.zeros_like(x), np.zeros(x.size, bool)
    norms = []
    for _ in range(600):
        is_sent |= arriving(compression.Sketch(0.01, 0.04), x, 1, residual) != 0
        norms.append(np.linalg.norm(residual))
    assert np.mean(is_sent) > 0.98
    assert norms[-1] < 1.2 * norms[299]  # and does not grow
