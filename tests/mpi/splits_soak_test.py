"""Allreduces at full speed, with communicators that come and go beside them, leave nothing behind.

The world never rests: a thread reduces on it from beginning to end. The main thread splits it
again and again, uses the part and closes it.
"""

import os
import statistics
import threading
import time

import numpy as np
import pytest
from tabulate import tabulate

import tf_adasum as adasum
from tf_adasum.collectives.native import lib

# Of each half: a case of pytest's may take 500 s. The long form, of //tests/mpi:splits_soak_test,
# is ten minutes in all, with more splits than MPI had tags for.
NUM_SPLITS = int(os.environ.get("SPLITS_SOAK_SPLITS", "200"))
SECONDS = float(os.environ.get("SPLITS_SOAK_SECONDS", "6"))
NUM_SAMPLES = 60
WARM_UP = NUM_SPLITS // 10
LARGEST_ELEMENTS = 2**19
LIMIT_SECONDS = 120
# Of the heap, which is cut in pieces by two threads; 5,000 splits that kept 1 KiB each are more.
MOST_GROWTH_MIB = 4
# Closed parts whose last messages are under way when a sample is taken, and their threads.
MOST_UNDER_WAY = 3

COLUMNS = ("resident MiB", "private MiB", "descriptors", "mapped files", "threads", "contexts")


def _private_mib():
    """Without what ranks share, which the kernel counts for all of them."""
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _sample():
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    with open("/proc/self/maps") as maps:
        num_mapped = sum("/" in line for line in maps)
    num_open = len(os.listdir("/proc/self/fd"))
    num_threads = len(os.listdir("/proc/self/task"))
    contexts = lib.mpi_contexts_in_use()
    return resident, _private_mib(), num_open, num_mapped, num_threads, contexts


class _FullSpeed(threading.Thread):
    """Reduces arrays of random sizes on the world until every rank has been asked to end."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_asked_to_end = False
        self.num_allreduces = 0
        self.error = None

    def run(self):
        try:
            while not self._reduce_one():
                self.num_allreduces += 1
        except Exception as error:
            self.error = error

    def _reduce_one(self):
        world = adasum.world()
        # Equal on all ranks, since all count alike.
        rng = np.random.default_rng(self.num_allreduces)
        is_largest = self.num_allreduces < 4
        exponent = np.log2(LARGEST_ELEMENTS) if is_largest else rng.uniform(0, 19)
        array = np.full(int(2**exponent) + 1, world.rank + 1, np.float32)
        array[0] = self.is_asked_to_end
        world.allreduce_arrays([array], "sum", "full speed")
        assert (array[1:] == world.size * (world.size + 1) / 2).all()
        return array[0] == world.size


def _use_a_part(number):
    """One that has all ranks, turned round, or of the even and the odd ones, in turn."""
    world = adasum.world()
    color = world.rank % 2 if number % 2 else 0
    part = world.split(color, key=-world.rank)
    members = range(color, world.size, 2) if number % 2 else range(world.size)
    for elements in (1, 5000):
        array = np.full(elements, world.rank + number, np.float64)
        part.allreduce_arrays([array], "sum", "part")
        assert (array == sum(members) + number * len(members)).all()
    part.close()


@pytest.mark.parametrize("half", [1, 2])
def test_splits_beside_allreduces_at_full_speed_leave_the_process_as_it_was(half):
    world = adasum.world()
    beside = _FullSpeed()
    beside.start()
    begin = time.monotonic()
    samples = []
    for number in range(NUM_SPLITS):
        _use_a_part(number)
        if number >= WARM_UP and number % max(1, NUM_SPLITS // NUM_SAMPLES) == 0:
            samples.append((time.monotonic() - begin, number + 1, *_sample()))
        # In time with the clock, so that the parts are spread over all of it.
        time.sleep(max(0.0, begin + (number + 1) * SECONDS / NUM_SPLITS - time.monotonic()))
    beside.is_asked_to_end = True
    beside.join(LIMIT_SECONDS)
    if beside.error:
        raise beside.error
    assert not beside.is_alive()
    print(f"rank {world.rank}, half {half}: {beside.num_allreduces} allreduces of the world")
    shown = samples[:: max(1, len(samples) // 12)]
    print(tabulate(shown, ("seconds", "splits", *COLUMNS), "github", floatfmt=".1f"))
    assert beside.num_allreduces > SECONDS
    _check_flat(samples)


def _check_flat(samples):
    """Compares the last third with the first."""
    third = len(samples) // 3
    for column, name in enumerate(COLUMNS, 2):
        first = [sample[column] for sample in samples[:third]]
        last = [sample[column] for sample in samples[-third:]]
        growth = statistics.median(last) - statistics.median(first)
        print(f"{name}: the last third's median is the first's {growth:+.2f}")
        if name.endswith("MiB"):
            assert growth < MOST_GROWTH_MIB, name
        else:
            # A close is under way in some samples and not in others.
            assert min(last) <= min(first), name
            assert max(last) <= max(first) + MOST_UNDER_WAY, name
