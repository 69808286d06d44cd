"""Ranks that pass unlike things: one error on every rank says who passed what; then on as before.

TF_ADASUM_MISMATCH_SECONDS is short here, so that names that nobody shares fail soon.
"""

import os
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

# Before the first communicator reads it.
os.environ["TF_ADASUM_MISMATCH_SECONDS"] = "2"

import tf_adasum as adasum
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

JOIN_SECONDS = 60


@pytest.fixture(autouse=True)
def _usable_afterwards():
    """Every test leaves a communicator that reduces."""
    yield
    result = adasum.allreduce(tf.fill([3], float(adasum.rank())), "sum", name="afterwards")
    size = adasum.size()
    np.testing.assert_array_equal(result, np.full(3, size * (size - 1) / 2))


def _is_odd():
    """The last rank passes something else."""
    return adasum.rank() == adasum.size() - 1


def _error_of(operation):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        operation()
    return caught.value.message


def _check_message(message, odd, others):
    """One line; this rank, what the odd one passed, what the others passed."""
    # TensorFlow puts the place in the graph around the line of an op in a function.
    (line,) = (line for line in message.splitlines() if "Expected" in line)
    assert f"rank {adasum.rank()}: Expected" in line
    last = adasum.size() - 1
    assert f"rank {last} passed {odd}" in line
    ranks = "rank 0" if last == 1 else "ranks 0, 1"
    assert f"{ranks} passed {others}" in line
    # Each rank names itself; the rest is the same everywhere.
    rest = line.partition(": Expected")[2].partition(" Make ")[0]
    assert MPI.COMM_WORLD.allgather(rest) == [rest] * adasum.size()


SUM = "allreduce(sum) of"

# name: (what the last rank passes, what the others pass, how it is said of each)
UNLIKE = {
    "shape": (
        [np.zeros(5, np.float32)],
        [np.zeros(4, np.float32)],
        f"{SUM} 1 float32 tensors [5]",
        f"{SUM} 1 float32 tensors [4]",
    ),
    "rank of the tensor": (
        [np.zeros((2, 2), np.float32)],
        [np.zeros(4, np.float32)],
        f"{SUM} 1 float32 tensors [2,2]",
        f"{SUM} 1 float32 tensors [4]",
    ),
    "dtype": (
        [np.zeros(4, np.float64)],
        [np.zeros(4, np.float32)],
        f"{SUM} 1 float64 tensors [4]",
        f"{SUM} 1 float32 tensors [4]",
    ),
    "count": (
        [np.zeros(4, np.float32)],
        [np.zeros(4, np.float32), np.zeros((), np.float32)],
        f"{SUM} 1 float32 tensors [4]",
        f"{SUM} 2 float32 tensors [4], []",
    ),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("what", UNLIKE)
def test_unlike_tensors(what, compiled):
    odd, others, odd_text, others_text = UNLIKE[what]
    tensors = [tf.constant(array) for array in (odd if _is_odd() else others)]

    def reduce():
        return adasum.allreduce(tensors, "sum", name="gradient")

    message = _error_of(tf.function(reduce) if compiled else reduce)
    _check_message(message, odd_text, others_text)
    assert "'gradient'" in message


def test_unlike_reductions():
    reduction = "adasum" if _is_odd() else "mean"
    message = _error_of(lambda: adasum.allreduce(tf.zeros(3), reduction, name="gradient"))
    _check_message(message, "allreduce(adasum) of 1", "allreduce(mean) of 1")


def test_unlike_numbers_of_replicas():
    leaves = [[tf.zeros(3)]] * (3 if _is_odd() else 2)
    message = _error_of(lambda: allreduce_replicas(leaves, "sum", name="gradient"))
    _check_message(
        message,
        f"{SUM} 1 float32 tensors [3] from 3 replicas",
        f"{SUM} 1 float32 tensors [3] from 2 replicas",
    )


def test_unlike_operations():
    def operation():
        if _is_odd():
            return adasum.broadcast(tf.zeros(3), name="gradient")
        return adasum.allreduce(tf.zeros(3), "sum", name="gradient")

    _check_message(_error_of(operation), "broadcast from 0 of float[3]", f"{SUM} 1 float32")


def test_unlike_roots_and_shapes_of_a_broadcast():
    root = 1 if _is_odd() else 0
    message = _error_of(lambda: adasum.broadcast(tf.zeros(3), root=root, name="weights"))
    _check_message(message, "broadcast from 1", "broadcast from 0")
    tensor = tf.zeros(4 if _is_odd() else 3)
    message = _error_of(lambda: adasum.broadcast(tensor, name="weights"))
    _check_message(message, "broadcast from 0 of float[4]", "broadcast from 0 of float[3]")


def test_unlike_names():
    name = "mine" if _is_odd() else "yours"
    message = _error_of(lambda: adasum.allreduce(tf.zeros(3), "sum", name=name))
    _check_message(message, "'mine' allreduce(sum)", "'yours' allreduce(sum)")


def test_names_made_from_unlike_content():
    message = _error_of(lambda: adasum.allreduce(tf.zeros(5 if _is_odd() else 4), "sum"))
    _check_message(message, f"{SUM} 1 float32 tensors [5]", f"{SUM} 1 float32 tensors [4]")


def test_error_in_a_function_ends_its_step_only():
    @tf.function
    def step(x):
        return adasum.allreduce(x, "sum", name="step") + 1.0

    for _ in range(3):
        _error_of(lambda: step(tf.zeros(2 if _is_odd() else 3)))
        np.testing.assert_array_equal(step(tf.ones(2)), np.full(2, adasum.size() + 1.0))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_and_inf_pass(dtype, special):
    mine = np.ones(100)
    if _is_odd():
        mine[70] = special
    tensors = [tf.cast(mine, dtype), tf.ones(5, dtype)]
    for reduction in ("adasum", "sum", "mean"):
        result, healthy = adasum.allreduce(tensors, reduction, name=f"{dtype} {reduction}")
        value = float(result[70])
        if reduction == "adasum" or np.isnan(special):
            assert np.isnan(value)
        else:
            assert value == special
        expected = adasum.size() if reduction == "sum" else 1
        np.testing.assert_allclose(tf.cast(healthy, tf.float64), np.full(5, expected), rtol=1e-2)


def _order():
    return range(8) if adasum.rank() % 2 == 0 else reversed(range(8))


def _check_numbers(results):
    for number, result in results.items():
        expected = np.full(number + 1, number * 10.0 * adasum.size())
        np.testing.assert_array_equal(result, expected)
    assert len(results) == 8


def _numbered(number):
    return adasum.allreduce(tf.fill([number + 1], number * 10.0), "sum", name=f"number {number}")


def _in_threads(call):
    """Issues 8 reductions from threads, one after another in this rank's order."""
    results = {}

    def run(number):
        results[number] = call(number).numpy()

    threads = []
    for number in _order():
        threads.append(threading.Thread(target=run, args=(number,)))
        threads[-1].start()
        time.sleep(0.02)  # so that requests do arrive in this order
    for thread in threads:
        thread.join(JOIN_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    _check_numbers(results)


def test_other_order_from_threads():
    _in_threads(_numbered)


def test_other_order_from_functions_in_threads():
    functions = [tf.function(lambda number=number: _numbered(number)) for number in range(8)]
    _in_threads(lambda number: functions[number]())


def test_other_order_in_branches_of_a_function():
    """Two reductions without an order between them: each branch sleeps on other ranks."""

    def nap(x, seconds):
        def sleep(value):
            time.sleep(seconds)
            return value

        return tf.py_function(sleep, [x], tf.float32)

    seconds = (0.0, 0.3) if adasum.rank() % 2 == 0 else (0.3, 0.0)

    @tf.function
    def branches(x):
        a = adasum.allreduce(nap(x, seconds[0]), "sum", name="a")
        b = adasum.allreduce(nap(2 * x, seconds[1]), "sum", name="b")
        return a, b

    for step in range(3):
        a, b = branches(tf.fill([4], float(step)))
        np.testing.assert_array_equal(a, np.full(4, step * adasum.size()))
        np.testing.assert_array_equal(b, np.full(4, 2 * step * adasum.size()))


def test_other_order_in_one_function():
    """Names decide what belongs together, not the order in which a program has them."""

    @tf.function
    def program():
        return {number: _numbered(number) for number in _order()}

    for _ in range(3):
        _check_numbers(program())


def test_other_order_without_names_fails_everywhere():
    """Without names, a tf.function keeps the order of the program: unlike programs do not fit."""

    @tf.function
    def program():
        return [adasum.allreduce(tf.zeros([number + 1])) for number in _order()]

    message = _error_of(program)
    assert "[1]" in message and "[8]" in message


def test_a_metric_that_one_rank_alone_reads():
    """The others wait for the next batch; the sentence says so, where that rank is, and why."""
    strategy = adasum.AdasumStrategy()
    with strategy.scope():
        metric = keras.metrics.Mean("loss")
    data = tf.data.Dataset.range(4 * adasum.size()).batch(2 * adasum.size())
    batches = iter(strategy.experimental_distribute_dataset(data))

    def loop():
        for _ in range(2):
            strategy.run(metric.update_state, [next(batches)])
            if _is_odd():
                metric.result()

    message = _error_of(loop)
    _check_message(
        message,
        "'the sum of the metric loss/",
        "'the next batch: how many replicas have data' allreduce(sum)",
    )
    assert "no rank may read a metric, stop training, leave fit by an exception" in message
