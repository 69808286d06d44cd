"""Communicators that end: closed by one rank, dropped, many; and several splits at once."""

import gc
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.collectives import native

# The long form, of //tests/mpi:many_splits_test, has more than MPI had tags for.
NUM_SPLITS = int(os.environ.get("NUM_SPLITS", "100"))
LIMIT_SECONDS = 60


def _sum(communicator, value, name):
    array = np.array([float(value)])
    communicator.allreduce_arrays([array], "sum", name)
    return array[0]


def _check_world(name):
    world = adasum.world()
    assert _sum(world, 1 + world.rank, name) == world.size * (world.size + 1) / 2


def _run_at_once(*jobs):
    """Runs the jobs in threads, each begun a moment after the one before it."""
    failures = []

    def run(job):
        try:
            job()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(timeout=LIMIT_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_what_is_noted_of_a_closed_one_is_dropped():
    """By the thread that reports stalls, which may have seen it wait a moment ago."""
    part = adasum.world().split(0)
    number = part._lib.id
    part.close()
    native.lib.add_to_timeline(number, "stall", 1.0)
    native.lib.add_to_timeline(10**6, "stall", 1.0)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_others_are_told_who_closed(is_dropped):
    """At once, whether they come after it or wait already."""
    world = adasum.world()
    for is_late in (True, False):
        part = world.split(0)
        assert _sum(part, 1, "before") == world.size
        if world.rank == world.size - 1:
            if not is_late:
                time.sleep(0.2)
            if not is_dropped:
                part.close()
            del part
            gc.collect()
        else:
            if is_late:
                time.sleep(0.2)
            with pytest.raises(RuntimeError) as refused:
                _sum(part, 1, "after")
            told = f"Received: rank {world.size - 1} has closed this communicator"
            assert told in str(refused.value)
            assert "'after'" in str(refused.value)
            part.close()
        _check_world("told")


@pytest.mark.parametrize("in_function", [False, True])
def test_an_op_says_so_by_unavailable(in_function):
    """In a graph, too, where TensorFlow would make another error of it."""
    world = adasum.world()
    part = world.split(0)

    def total():
        return adasum.allreduce(tf.ones([3]), "sum", part, "after")

    total()
    if world.rank == world.size - 1:
        part.close()
    else:
        with pytest.raises(tf.errors.UnavailableError, match="has closed this communicator"):
            (tf.function(total) if in_function else total)()
        part.close()
    _check_world("told by an op")


def test_ranks_close_in_any_order():
    world = adasum.world()
    for first in range(min(world.size, 3)):
        part = world.split(0)
        assert _sum(part, 1, "before") == world.size
        time.sleep(0.05 * ((world.rank - first) % world.size))
        part.close()
        part.close()
    _check_world("closed")


def test_function_keeps_a_dropped_communicator():
    world = adasum.world()
    # One handle from outside of the graph, one from inside, which a name of its own gets.
    for name in (None, "named"):
        part = world.split(0)
        function = tf.function(
            lambda x, part=part, name=name: adasum.allreduce(x, "sum", part, name)
        )
        concrete = function.get_concrete_function(tf.TensorSpec([3]))
        del part, function
        gc.collect()
        np.testing.assert_array_equal(concrete(tf.ones([3])), np.full(3, world.size))


def _threads_and_descriptors():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("is_dropped", [False, True])
def test_many_splits_leave_nothing(is_dropped):
    """Ranks in turned order: a message of a closed group would change a sum."""
    world = adasum.world()
    before = None
    for number in range(NUM_SPLITS):
        part = world.split(world.rank % 2, key=-world.rank)
        members = range(world.rank % 2, world.size, 2)
        assert _sum(part, world.rank + number, "s") == sum(members) + number * len(members)
        if not is_dropped:
            part.close()
        del part
        if number == 20:
            _settle(*([0, 0]))
            before = _threads_and_descriptors()
    # Dropped ones are closed by another thread.
    assert _settle(*before) <= before
    _check_world("after many")


def _settle(threads, descriptors):
    for _ in range(100):
        now = _threads_and_descriptors()
        if now[0] <= threads and now[1] <= descriptors:
            break
        time.sleep(0.01)
    return now


def test_split_beside_allreduce():
    """In threads of the even ranks, one after the other on the odd ones; in both orders."""
    world = adasum.world()

    def split():
        part = world.split(0)
        assert _sum(part, 1, "s") == world.size
        part.close()

    def reduce():
        assert adasum.allreduce(tf.ones([3]), "sum", name="beside")[0] == world.size

    for jobs in ([split, reduce], [reduce, split]):
        if world.rank % 2:
            for job in reversed(jobs):
                job()
        else:
            _run_at_once(*jobs)


def test_splits_of_one_communicator_at_once():
    """They meet by name; and of two communicators at once, in unlike orders."""
    world = adasum.world()
    other = world.split(0)

    def split(communicator, name, key):
        part = communicator.split(0, key=key * world.rank, name=name)
        for step in range(20):
            assert _sum(part, part.rank + step, "s") == sum(range(world.size)) + step * world.size
        assert part.rank == (world.rank if key >= 0 else world.size - 1 - world.rank)
        part.close()

    jobs = [
        lambda: split(world, "forwards", 1),
        lambda: split(world, "backwards", -1),
        lambda: split(other, "split", -1),
    ]
    if world.rank % 2:
        jobs.reverse()
    _run_at_once(*jobs)
    other.close()
