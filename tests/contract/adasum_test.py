"""What makes Adasum Adasum: its identities, scales at the ends of the formats, NaN and Inf."""

import ml_dtypes
import numpy as np
import pytest

from tests.contract import error_model
from tf_adasum.collectives import reductions
from tf_adasum.collectives.simulate import simulate

RANKS = [1, 2, 3, 4, 5, 8, 13, 16]
FLOATS = list(error_model.LIMITS)


def _cast(array, dtype):
    return np.asarray(array).astype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)


def _adasum(vectors):
    """Adasum of one variable, after a look at all ranks' results."""
    outputs = simulate([[each] for each in vectors])
    for (of_rank,) in outputs:
        assert of_rank.tobytes() == outputs[0][0].tobytes()
    return outputs[0][0]


def _normal(ranks, dtype="float64", size=200):
    rng = np.random.default_rng(ranks)
    return [_cast(rng.normal(size=size), dtype) for _ in range(ranks)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ranks", RANKS)
def test_equal_inputs_give_the_input(ranks, dtype):
    (vector,) = _normal(1, dtype)
    result = _adasum([vector] * ranks)
    error = error_model.relative_error(result, vector.astype(np.float64), [vector])
    assert error <= error_model.LIMITS[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ranks", RANKS)
def test_orthogonal_inputs_give_their_sum(ranks, dtype):
    # Each rank has ten places of its own: all dot products are exactly zero, and so is the error.
    vectors = np.zeros((ranks, 10 * ranks))
    for rank in range(ranks):
        vectors[rank, 10 * rank : 10 * rank + 10] = np.arange(1, 11) * (rank + 1)
    result = _adasum([_cast(vector, dtype) for vector in vectors])
    np.testing.assert_array_equal(result, _cast(vectors.sum(axis=0), dtype))


def test_parallel_inputs_are_averaged():
    direction = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(_adasum([direction, 3 * direction]), 2 * direction, rtol=1e-14)
    np.testing.assert_allclose(
        _adasum([k * direction for k in (1, 2, 4, 8)]), 3.75 * direction, rtol=1e-14
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ranks", RANKS)
def test_zero_is_the_identity(ranks, dtype):
    (vector,) = _normal(1, dtype)
    for place in range(ranks):
        vectors = [np.zeros_like(vector)] * ranks
        vectors[place] = vector
        np.testing.assert_array_equal(_adasum(vectors), vector)
    np.testing.assert_array_equal(_adasum([np.zeros_like(vector)] * ranks), np.zeros_like(vector))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ranks", RANKS)
def test_powers_of_two_are_taken_out_exactly(ranks, dtype):
    vectors = [_cast(np.round(v.astype(np.float64) * 64) / 64, dtype) for v in _normal(ranks)]
    result = _adasum(vectors).astype(np.float64)
    for scale in (2.0, 0.25, -4.0):
        scaled = _adasum([_cast(v.astype(np.float64) * scale, dtype) for v in vectors])
        # float16 loses bits only below its smallest normal number.
        if dtype != "float16":
            np.testing.assert_array_equal(scaled.astype(np.float64), result * scale)
        else:
            np.testing.assert_allclose(scaled.astype(np.float64), result * scale, atol=2.0**-24)


@pytest.mark.parametrize("ranks", RANKS)
def test_any_scale_is_taken_out(ranks):
    vectors = _normal(ranks)
    result = _adasum(vectors)
    for scale in (3.7, -0.019, 1e30):
        scaled = _adasum([vector * scale for vector in vectors])
        error = error_model.relative_error(
            scaled, result * scale, [vector * scale for vector in vectors]
        )
        assert error <= error_model.LIMITS["float64"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("ranks", RANKS)
def test_one_vector_next_to_nothing(ranks, dtype):
    # Subnormal beside ordinary: the coefficient of the small one is beyond float32.
    vectors = [_cast(v.astype(np.float64), dtype) for v in _normal(ranks)]
    for place in range(ranks):
        unlike = list(vectors)
        unlike[place] = _cast(vectors[place].astype(np.float64) * 1e-39, dtype)
        error_model.check("adasum", _adasum(unlike), unlike)


@pytest.mark.parametrize(
    ("dtype", "small", "large"),
    [
        ("float16", 2e-4, 2e3),
        ("bfloat16", 1e-30, 1e30),
        ("float32", 1e-30, 1e30),
        ("float64", 1e-150, 1e150),
    ],
)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_unlike_norms(ranks, dtype, small, large):
    vectors = _normal(ranks)
    for smalls in range(1, 2**ranks - 1):
        scales = [small if smalls >> rank & 1 else large for rank in range(ranks)]
        unlike = [_cast(v * scale, dtype) for v, scale in zip(vectors, scales, strict=True)]
        error_model.check("adasum", _adasum(unlike), unlike)


def test_parallel_vectors_of_unlike_norms_are_averaged():
    for dtype in ("float32", "bfloat16"):
        small, large = (_cast(np.full(8, scale), dtype) for scale in (1e-30, 1e30))
        for vectors in ([small, large], [large, small]):
            np.testing.assert_array_equal(_adasum(vectors), _cast(large.astype(float) / 2, dtype))


def test_squared_norm_close_to_the_largest_double():
    # Twice the squared norm is beyond the doubles.
    vector = np.array([1.1e154])
    np.testing.assert_array_equal(_adasum([vector, vector]), vector)


def test_squared_norms_beyond_the_doubles():
    # How much of one vector lies along the other can't be told: no number is made up.
    vectors = [np.array([1.2e154]), np.array([1.4e154])]
    for unlike in (vectors, vectors[::-1]):
        assert np.isnan(_adasum(unlike)).all()
    # Where it is next to nothing it need not be told: parallel vectors are averaged.
    vectors = [np.array([1e100]), np.array([1e160])]
    for unlike in (vectors, vectors[::-1]):
        np.testing.assert_allclose(_adasum(unlike), [5e159], rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e80, 1e150])
@pytest.mark.parametrize("ranks", RANKS)
def test_far_scales_of_float64(ranks, scale):
    vectors = [vector * scale for vector in _normal(ranks)]
    error_model.check("adasum", _adasum(vectors), vectors)


def test_squared_norm_below_the_smallest_normal_is_added():
    # |a|^2 = 1e-320 has lost its digits: no direction is left to compare, so a is added as it is.
    tiny, small = np.array([1e-160, 0.0]), np.array([2e-160, 0.0])
    np.testing.assert_array_equal(_adasum([tiny, small]), tiny + small)
    # And just above it they are parallel, hence averaged.
    np.testing.assert_allclose(_adasum([tiny * 1e10, small * 1e10]), [1.5e-150, 0], rtol=1e-15)


def test_float16_does_not_overflow_on_the_way():
    # The squares of 300 do not fit into float16; its moments are float64.
    vectors = [_cast(np.full(100, 300.0 + 10 * rank), "float16") for rank in range(4)]
    error_model.check("adasum", _adasum(vectors), vectors)


@pytest.mark.parametrize("reduction", ["adasum", "mean"])
def test_mean_of_large_float16_stays_finite(reduction):
    vectors = [_cast(np.full(70, 60000.0), "float16")] * 5
    outputs = simulate([[each] for each in vectors], reduction)
    np.testing.assert_allclose(outputs[0][0].astype(np.float64), 60000, rtol=2e-3)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_nan_and_inf_travel_to_every_rank(ranks, dtype, special):
    for place in range(ranks):
        vectors = [each.copy() for each in _normal(ranks, dtype, 100)]
        vectors[place][70] = special
        healthy = _normal(ranks, dtype, 30)
        for reduction in reductions.names():
            outputs = simulate([[v, h] for v, h in zip(vectors, healthy, strict=True)], reduction)
            assert len({of_rank[0].tobytes() for of_rank in outputs}) == 1
            result = outputs[0][0].astype(np.float64)
            # An infinite norm makes the coefficients of Adasum NaN; the others keep the value.
            if reduction == "adasum" or np.isnan(special):
                assert np.isnan(result[70])
            else:
                expected = error_model.reference(reduction, [v[70:71] for v in vectors])
                assert result[70] == expected[0]
            # The other variable does not notice.
            error_model.check(reduction, outputs[0][1], healthy)


def test_variables_do_not_see_each_other():
    # Parallel in the first variable, orthogonal in the second: each by itself.
    outputs = simulate(
        [
            [np.array([2.0, 0.0]), np.array([1.0, 0.0])],
            [np.array([4.0, 0.0]), np.array([0.0, 5.0])],
        ]
    )
    np.testing.assert_array_equal(outputs[0][0], [3.0, 0.0])
    np.testing.assert_array_equal(outputs[0][1], [1.0, 5.0])
