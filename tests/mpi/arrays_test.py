"""allreduce_arrays on real ranks, against the NumPy reference and against allreduce, bit by bit."""

import functools
import signal
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tf_adasum.collectives import reductions

DTYPES = {**{name: name for name in error_model.LIMITS}, "bfloat16": ml_dtypes.bfloat16}
SHAPES = [(), (0,), (3,), (5, 7), (300_000,)]


def _inputs(dtype, seed=0):
    """All ranks' arrays, the same on every rank."""
    rng = np.random.default_rng([seed, adasum.size()])
    return [
        [np.asarray(rng.normal(size=shape)).astype(DTYPES[dtype]) for shape in SHAPES]
        for _ in range(adasum.size())
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", reductions.names())
def test_agrees_with_the_reference_and_the_op(reduction, dtype):
    inputs = _inputs(dtype)
    mine = [array.copy() for array in inputs[adasum.rank()]]
    adasum.allreduce_arrays(mine, reduction)
    through_op = adasum.allreduce([tf.constant(a) for a in inputs[adasum.rank()]], reduction)
    for variable, result in enumerate(mine):
        error_model.check(reduction, result, [of_rank[variable] for of_rank in inputs])
        assert result.tobytes() == through_op[variable].numpy().tobytes()
    bits = [result.tobytes() for result in mine]
    assert MPI.COMM_WORLD.allgather(bits) == [bits] * adasum.size()


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_other_dtypes(dtype):
    array = np.array([adasum.rank(), 1, 0]).astype(dtype)
    adasum.allreduce_arrays(array, "sum")
    total = adasum.size() * (adasum.size() - 1) // 2
    np.testing.assert_array_equal(array, np.array([total, adasum.size(), 0]).astype(dtype))


def test_in_a_part_of_the_ranks():
    part = adasum.world().split(color=adasum.rank() % 2)
    array = np.ones(4, np.float32)
    adasum.allreduce_arrays(array, "sum", communicator=part)
    np.testing.assert_array_equal(array, np.full(4, part.size, np.float32))


def test_a_communicators_own_has_the_same_defaults():
    arrays = [np.array([1.0 + adasum.rank(), 2.0]) for _ in range(2)]
    adasum.allreduce_arrays(arrays[0])
    adasum.world().allreduce_arrays(arrays[1])
    np.testing.assert_array_equal(*arrays)


def _not_contiguous():
    return np.zeros((4, 4))[:, ::2]


def _read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    return array


def _not_aligned():
    return np.zeros(17, np.uint8)[1:].view(np.float64)


def _twice():
    array = np.zeros(3)
    return [np.ones(2), array, array]


def _overlapping():
    array = np.zeros(10)
    return [array[4:], np.ones(2), array[:5]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (lambda: [1.0], "Expected NumPy arrays"),
        (_not_contiguous, "array 0, which is not C-contiguous"),
        (_read_only, "array 0, which is read-only"),
        (lambda: [np.zeros(3), np.zeros((3, 3)).T], "array 1, which is not C-contiguous"),
        (_not_aligned, "array 0, which is not aligned"),
        (lambda: np.ones(3, ">f4"), "array 0, which is of dtype >f4"),
        (lambda: np.ones(3, ">i8"), "array 0, which is of dtype >i8"),
        (_twice, "arrays 1 and 2, which share some"),
        (_overlapping, "arrays 0 and 2, which share some"),
        (lambda: [np.zeros(2), np.zeros(2, np.float32)], "one dtype"),
        (lambda: np.zeros(2, np.int32), "Expected a floating dtype"),
        (lambda: np.zeros(2, np.complex64), "complex64"),
    ],
)
def test_refuses_before_any_byte_is_sent(arrays, message):
    with pytest.raises(ValueError, match=message) as caught:
        adasum.allreduce_arrays(arrays())
    assert "\n" not in str(caught.value)
    if "array" in message:
        assert str(caught.value).startswith(f"rank {adasum.rank()}: Expected ")
    array = np.ones(2)
    adasum.allreduce_arrays(array, "sum")
    np.testing.assert_array_equal(array, np.full(2, adasum.size()))


def test_parts_of_one_array():
    array = np.arange(10.0)
    parts = [array[5:], array[5:5], array[:5]]
    adasum.allreduce_arrays(parts, "sum")
    np.testing.assert_array_equal(array, np.arange(10.0) * adasum.size())


def test_no_arrays_at_all_and_no_name():
    adasum.allreduce_arrays([])
    array = np.ones(2)
    adasum.allreduce_arrays(array, "sum", name=None)
    np.testing.assert_array_equal(array, np.full(2, adasum.size()))


@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: [np.ones(2), array]])
def test_masked_arrays_are_refused(wrap):
    """What is hidden would be added up, too."""
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    of_world = functools.partial(adasum.world().allreduce_arrays, reduction="sum", name="masked")
    for allreduce_arrays in (adasum.allreduce_arrays, of_world):
        with pytest.raises(TypeError, match=f"rank {adasum.rank()}: .* a masked array"):
            allreduce_arrays(wrap(masked))


def test_ranks_that_differ_are_told_so():
    array = np.full(2 + (adasum.rank() == 1), 5.0)
    alone = adasum.size() == 1
    with nullcontext() if alone else pytest.raises(ValueError, match="rank 1 passed"):
        adasum.allreduce_arrays(array)
    assert (array == 5.0).all()
    adasum.allreduce_arrays(np.ones(1))  # still usable


def test_a_signals_handler_may_reduce_meanwhile():
    """NumPy may run one where it is asked for a dtype's name; arrays of other numbers then come."""
    alone = adasum.world().split(color=adasum.rank())
    num_handled = 0

    def handle(*_):
        nonlocal num_handled
        array = np.ones(3, np.float32)
        adasum.allreduce_arrays(array, "mean", communicator=alone)
        num_handled += 1

    arrays = [np.full(5, i, ml_dtypes.bfloat16) for i in range(300)]
    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
    try:
        while num_handled < 200:
            adasum.allreduce_arrays(arrays, "mean", communicator=alone)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.full(5, i, ml_dtypes.bfloat16))
