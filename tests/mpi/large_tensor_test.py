"""One tensor of more than 2^31 bytes, and one of more than 2^31 elements.

A short pattern is repeated, so that the result is a repeated pattern too: one period is held
against the reference, and all periods against the first, bit by bit.
"""

import gc

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.contract import error_model

PERIOD = 1009
# Odd, and above 2^30 elements of 2 bytes, or 2^31 of 1 byte.
NUM_PERIODS = {"bfloat16": 1064165, "bool": 2128331}


@pytest.fixture(name="communicator")
def _communicator():
    """Its own, so that the memory goes with it."""
    communicator = adasum.world().split(color=0)
    yield communicator
    communicator.close()
    del communicator
    gc.collect()


def _patterns(dtype):
    """One period of every rank."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(PERIOD) + 0.3 for _ in range(adasum.size())]
    if dtype == "bool":
        return [value > 1 for value in values]
    return [tf.constant(value, dtype).numpy() for value in values]


def _periods(operation, pattern, number):
    """The first period of the result, and whether all others are the same.

    In one function, so that no copy of the large tensor is alive but the one that is worked on.
    """

    @tf.function
    def run():
        result = operation(tf.tile(pattern, [number]))
        periods = tf.reshape(result, [number, PERIOD])
        if result.dtype == tf.bool:
            return periods[0], tf.reduce_all(
                tf.reduce_all(periods, axis=0) == tf.reduce_any(periods, axis=0)
            )
        return periods[0], tf.reduce_all(
            tf.reduce_max(periods, axis=0) == tf.reduce_min(periods, axis=0)
        )

    return run()


@pytest.mark.parametrize(("reduction", "dtype"), [("adasum", "bfloat16"), ("sum", "bool")])
def test_large_tensor(communicator, reduction, dtype):
    patterns, number = _patterns(dtype), NUM_PERIODS[dtype]
    assert number * PERIOD * patterns[0].itemsize > 2**31
    assert number * PERIOD % 2 == 1

    def reduce(tensor):
        return adasum.allreduce(tensor, reduction, communicator, name="large")

    period, is_repeated = _periods(reduce, tf.constant(patterns[adasum.rank()]), number)
    assert is_repeated
    error_model.check(reduction, period.numpy(), patterns)


def test_large_broadcast(communicator):
    patterns, root = _patterns("bfloat16"), adasum.size() - 1

    def copy(tensor):
        return adasum.broadcast(tensor, root, communicator, name="large")

    pattern = tf.constant(patterns[adasum.rank()])
    period, is_repeated = _periods(copy, pattern, NUM_PERIODS["bfloat16"])
    assert is_repeated
    assert period.numpy().tobytes() == patterns[root].tobytes()
