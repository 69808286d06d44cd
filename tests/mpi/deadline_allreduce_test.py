"""Allreduces without what is late, on real ranks, beside NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

from tests.reference import adasum, mean
from tests.reference import sum as total
from tf_adasum.collectives.communicator import world
from tf_adasum.collectives.deadline_allreduce import DeadlineAllreduce

REFERENCES = {"adasum": adasum.reduce, "mean": mean.reduce, "sum": total.reduce}
# Several chunks and less than one; a chunk is 4 KiB here, and more in the last list.
LISTS = [[()], [(3,), (0, 5), (70, 61)], [(5000,), (), (7, 333)], [(300_001,), (1000,)]]
# Relative to the largest value.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}
AMPLE = 1e6


def _inputs(shapes, dtype, seed=0):
    """Of every rank; no value is zero, so that what is left out can be told."""
    return [
        [
            tf.cast(np.random.default_rng([seed, rank, i]).normal(0.4, 1, shape), dtype).numpy()
            for i, shape in enumerate(shapes)
        ]
        for rank in range(world().size)
    ]


def _reduced(inputs, reduction, milliseconds, max_left_out):
    """What all ranks have left out, and what they got, which is the same on all."""
    allreduce = DeadlineAllreduce(world(), "test", milliseconds, max_left_out)
    tensors = [tf.constant(each) for each in inputs[world().rank]]
    reduced, left_out, share = allreduce.reduce(tensors, [reduction] * len(tensors))
    reduced, left_out = ([each.numpy() for each in values] for values in (reduced, left_out))
    for got, rest, tensor in zip(reduced, left_out, tensors, strict=True):
        assert got.dtype == rest.dtype == tensor.dtype.as_numpy_dtype
        assert got.shape == rest.shape == tensor.shape
    found = MPI.COMM_WORLD.allgather((reduced, left_out, float(share)))
    for of_rank, _, its_share in found:
        assert its_share == found[0][2]
        assert [each.tobytes() for each in of_rank] == [each.tobytes() for each in reduced]
    return reduced, [rest for _, rest, _ in found], found[0][2]


def _check(reduced, leaves, reduction, dtype):
    for place, got in enumerate(reduced):
        of_ranks = [leaf[place].astype(np.float64) for leaf in leaves]
        want = REFERENCES[reduction](of_ranks)
        scale = max(1, *(np.abs(each).max(initial=0) for each in [*of_ranks, want]))
        np.testing.assert_allclose(
            got.astype(np.float64), want, rtol=0, atol=TOLERANCES[dtype] * scale
        )


@pytest.mark.parametrize("reduction", REFERENCES)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shapes", LISTS)
def test_all_is_there_in_time(shapes, dtype, reduction):
    inputs = _inputs(shapes, dtype)
    reduced, left_out, share = _reduced(inputs, reduction, AMPLE, 0.01)
    assert share == 0
    assert not any(np.any(each) for rest in left_out for each in rest)
    _check(reduced, inputs, reduction, dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("bound", [0, 0.05, 1])
def test_there_is_no_time(bound, reduction):
    """What is in the results is what is not left out, whatever the network was able to do."""
    for seed in range(5):
        inputs = _inputs(LISTS[3], "float64", seed)
        reduced, left_out, share = _reduced(inputs, reduction, 0, bound)
        leaves = [
            [value - rest for value, rest in zip(*pair, strict=True)]
            for pair in zip(inputs, left_out, strict=True)
        ]
        for of_rank, rests in zip(inputs, left_out, strict=True):
            for value, rest in zip(of_rank, rests, strict=True):
                assert np.all((rest == 0) | (rest == value))
        number = sum(np.count_nonzero(rest) for rests in left_out for rest in rests)
        size = sum(value.size for of_rank in inputs for value in of_rank)
        assert share == pytest.approx(number / size, rel=1e-12)
        assert share <= bound + 1e-7
        _check(reduced, leaves, reduction, "float64")


def test_lists_of_several_dtypes_and_reductions():
    allreduce = DeadlineAllreduce(world(), "test", AMPLE, 0.01)
    size, mine = world().size, world().rank + 1.0
    tensors = [tf.fill([3], mine), tf.fill([2], tf.cast(mine, tf.float64)), tf.fill([4], mine)]
    reduced, _, _ = allreduce.reduce(tensors, ["sum", "mean", "adasum"])
    np.testing.assert_allclose(reduced[0], np.full(3, size * (size + 1) / 2))
    np.testing.assert_allclose(reduced[1], np.full(2, (size + 1) / 2))
    leaves = [np.full(4, rank + 1.0) for rank in range(size)]
    np.testing.assert_allclose(reduced[2], adasum.reduce(leaves), rtol=1e-6)


def test_it_goes_into_a_function():
    allreduce = DeadlineAllreduce(world(), "test", AMPLE, 0.01)

    @tf.function
    def step(x):
        (total,), (rest,), share = allreduce.reduce([x], ["sum"])
        return total + rest, share

    for call in range(3):
        summed, share = step(tf.fill([1000], call + 1.0))
        np.testing.assert_array_equal(summed, np.full(1000, world().size * (call + 1.0)))
        assert share == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'adasum', 'mean' or 'sum'"):
        DeadlineAllreduce(world(), "test", 1, 0.5).reduce([tf.ones([3])], ["max"])
    if world().size == 1:
        return
    allreduce = DeadlineAllreduce(world(), "test", AMPLE, 0.5)
    mine = tf.ones([3 + (world().rank == 1)])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3\].*\[4\]|\[4\].*\[3\]"):
        allreduce.reduce([mine], ["sum"])
    (summed,), _, _ = allreduce.reduce([tf.ones([2])], ["sum"])  # it can be used further
    np.testing.assert_array_equal(summed, np.full(2, world().size))
