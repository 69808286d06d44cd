"""Long arrays are reduced by as many threads as a rank has cores."""

import contextlib
from pathlib import Path

import numpy as np

import tf_adasum as adasum

NAME = "adasum helper"


def _num_helpers():
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # one that has just ended, of a group that was dropped
            names.append(path.read_text().strip())
    return names.count(NAME)


def test_helpers_come_with_the_first_long_array():
    # TF_ADASUM_CORES=6 on two ranks: three cores each. Every communicator has helpers of its own.
    communicator = adasum.world().split(color=0)
    before = _num_helpers()
    adasum.allreduce_arrays(np.ones(1000, np.float32), communicator=communicator)
    assert _num_helpers() == before
    for _ in range(3):
        array = np.full(1 << 20, adasum.rank() + 1.0, np.float32)
        adasum.allreduce_arrays(array, "sum", communicator)
        np.testing.assert_array_equal(array, np.float32(3))
    assert _num_helpers() == before + 2
