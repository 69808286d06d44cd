"""Every reduction, for every number of ranks, dtype and shape, against the NumPy reference."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.contract import error_model
from tf_adasum.collectives import reductions
from tf_adasum.collectives.simulate import simulate

RANKS = [*range(1, 18), 32, 64]
FLOATS = list(error_model.LIMITS)
OTHERS = ["int32", "int64", "bool"]
SHAPES = [(), (1,), (3,), (0,), (17,), (130,), (5, 7), (2, 0, 3), (64,), (1000,)]


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def _draw(rng, shape, dtype):
    if dtype == "bool":
        return rng.random(shape) < 0.9
    if dtype.startswith("int"):
        return rng.integers(-1000, 1000, shape).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(_dtype(dtype))


def _inputs(ranks, dtype, shapes=SHAPES, seed=0):
    rng = np.random.default_rng([seed, ranks])
    return [[_draw(rng, shape, dtype) for shape in shapes] for _ in range(ranks)]


def _dtypes_of(reduction):
    return FLOATS if reductions.ALL[reduction].floats_only else FLOATS + OTHERS


def _assert_alike(outputs):
    """Bitwise equal on all ranks."""
    for of_rank in outputs:
        for mine, first in zip(of_rank, outputs[0], strict=True):
            assert mine.dtype == first.dtype
            assert mine.tobytes() == first.tobytes()


def _bytes(outputs):
    return [[array.tobytes() for array in of_rank] for of_rank in outputs]


REDUCTIONS_AND_DTYPES = [
    (reduction, dtype) for reduction in reductions.names() for dtype in _dtypes_of(reduction)
]


@pytest.mark.parametrize(("reduction", "dtype"), REDUCTIONS_AND_DTYPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_agrees_with_the_reference_on_all_ranks(reduction, dtype, ranks):
    inputs = _inputs(ranks, dtype)
    outputs = simulate(inputs, reduction)
    assert len(outputs) == ranks
    _assert_alike(outputs)
    for variable in range(len(SHAPES)):
        error_model.check(
            reduction, outputs[0][variable], [of_rank[variable] for of_rank in inputs]
        )


@pytest.mark.parametrize(("reduction", "dtype"), REDUCTIONS_AND_DTYPES)
def test_run_to_run_equal(reduction, dtype):
    for ranks in (2, 3, 8, 13):
        inputs = _inputs(ranks, dtype)
        first = simulate(inputs, reduction)
        for _ in range(3):
            assert _bytes(simulate(inputs, reduction)) == _bytes(first)


# Lists of variables that go into one call each.
GROUPINGS = {
    "one by one": [[index] for index in range(len(SHAPES))],
    "backwards": [list(reversed(range(len(SHAPES))))],
    "two calls": [[0, 3, 5, 7, 9], [8, 6, 4, 2, 1]],
    "uneven": [[9], [1, 0], [2, 3, 4, 5, 6, 7, 8]],
}


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", reductions.names())
def test_any_grouping_keeps_the_bounds(reduction, dtype, grouping):
    for ranks in (2, 3, 5, 8, 13):
        inputs = _inputs(ranks, dtype)
        for group in GROUPINGS[grouping]:
            outputs = simulate([[of_rank[i] for i in group] for of_rank in inputs], reduction)
            _assert_alike(outputs)
            for place, variable in enumerate(group):
                leaves = [of_rank[variable] for of_rank in inputs]
                error_model.check(reduction, outputs[0][place], leaves)


def test_dtypes_may_be_mixed():
    for ranks in (2, 3, 5):
        lists = [_inputs(ranks, dtype, [(5,), (70,)]) for dtype in FLOATS]
        inputs = [[lists[i % 4][rank][i // 4] for i in range(8)] for rank in range(ranks)]
        outputs = simulate(inputs)
        _assert_alike(outputs)
        for variable in range(8):
            leaves = [of_rank[variable] for of_rank in inputs]
            error_model.check("adasum", outputs[0][variable], leaves)


def test_inputs_stay_as_they_are():
    inputs = _inputs(5, "float32")
    before = _bytes(inputs)
    simulate(inputs)
    assert _bytes(inputs) == before


def test_strided_arrays():
    rng = np.random.default_rng(5)
    whole = [rng.normal(size=(40, 30)) for _ in range(3)]
    outputs = simulate([[each[::2, 1::3]] for each in whole])
    error_model.check("adasum", outputs[2][0], [each[::2, 1::3] for each in whole])


def test_no_variables_and_no_elements():
    assert simulate([[], []]) == [[], []]
    outputs = simulate([[np.zeros((0, 4))]] * 3)
    assert [array.shape for array in functools.reduce(lambda a, b: a + b, outputs)] == [(0, 4)] * 3


def test_unlike_ranks_are_refused():
    with pytest.raises(ValueError, match=r"Received: .*float64\(3,\).* on rank 1"):
        simulate([[np.zeros(2)], [np.zeros(3)]])
    with pytest.raises(ValueError, match="on rank 2"):
        simulate([[np.zeros(2)], [np.zeros(2)], [np.zeros(2, np.float32)]])
    with pytest.raises(ValueError, match="on rank 1"):
        simulate([[np.zeros(2)], [np.zeros(2), np.zeros(2)]])


def test_unknown_reduction_and_dtype_are_refused():
    with pytest.raises(ValueError, match=r"among .*adasum.*mean.*sum.* Received: 'median'"):
        simulate([[np.zeros(2)]], "median")
    with pytest.raises(ValueError, match="Received: int32"):
        simulate([[np.zeros(2, np.int32)]] * 2, "adasum")
    with pytest.raises(ValueError, match="Received: complex64"):
        simulate([[np.zeros(2, np.complex64)]] * 2, "sum")


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i4", ">i8"])
def test_bytes_in_any_order(dtype):
    """As values, not as bytes: a copy in this machine's order is reduced."""
    values = [np.array([1, 2, 300], dtype), np.array([4, 5, 600], dtype)]
    for result in simulate([[each] for each in values], "sum"):
        assert result[0].dtype == np.dtype(dtype).newbyteorder("=")
        np.testing.assert_array_equal(result[0], [5, 7, 900])


def test_arrays_that_are_not_aligned():
    def shifted(values):
        memory = np.zeros(8 * len(values) + 1, np.uint8)
        memory[1:] = np.frombuffer(np.array(values).tobytes(), np.uint8)
        return memory[1:].view(np.float64)

    inputs = [[shifted([1.0, 2.0])], [shifted([3.0, 4.0])]]
    assert not inputs[0][0].flags.aligned
    for result in simulate(inputs, "sum"):
        assert result[0].flags.aligned
        np.testing.assert_array_equal(result[0], [4.0, 6.0])


def test_one_array_for_all():
    array = np.array([1.0, 2.0])
    for result in simulate([[array, array], [array, array[:]]], "sum"):
        np.testing.assert_array_equal(result, [[2.0, 4.0], [2.0, 4.0]])
    np.testing.assert_array_equal(array, [1.0, 2.0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_tensors(shape, dtype):
    arrays = _inputs(3, dtype, [shape])
    tensors = [[tf.constant(array) for array in of_rank] for of_rank in arrays]
    assert _bytes(simulate(tensors)) == _bytes(simulate(arrays))
