"""Ranks copy from and to arrays that lie anywhere, where the system lets them, or pack them.

Which of the two is quicker they find out call by call, so that calls in a row try both.
"""

import ctypes
import os

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI

import tf_adasum as adasum
from adasumrun import timeline

LISTS = {"one": [40_000], "many": [40_001, 0, 7, 300_000, 1, 900], "short": [100] * 2000}
DTYPES = [ml_dtypes.bfloat16, "float32", "int32"]
PACKED = {"zero_copy": False, "cross_memory": False}
# Each way is tried in the first four.
CALLS = 6


class _IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _may_copy():
    """Whether this host lets every rank read every other rank's memory."""
    values = np.arange(4, dtype=np.int64) + adasum.rank()
    places = MPI.COMM_WORLD.allgather((os.getpid(), values.ctypes.data))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    can = True
    for rank, (process, address) in enumerate(places):
        found = np.zeros_like(values)
        here = _IoVec(found.ctypes.data, found.nbytes)
        there = _IoVec(address, found.nbytes)
        num_read = libc.process_vm_readv(
            process, ctypes.byref(here), 1, ctypes.byref(there), 1, ctypes.c_ulong(0)
        )
        can = can and num_read == found.nbytes and found[0] == rank
    return MPI.COMM_WORLD.allreduce(can, MPI.LAND)


@pytest.fixture(name="packed", scope="module")
def _packed():
    group = adasum.world().split(color=0, options=PACKED)
    yield group
    group.close()


def _arrays(sizes, dtype):
    rng = np.random.default_rng([5, adasum.rank()])
    return [rng.normal(scale=3, size=size).astype(dtype) for size in sizes]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("sizes", LISTS.values(), ids=LISTS.keys())
@pytest.mark.parametrize("reduction", ["adasum", "mean"])
def test_every_way_has_the_bits_of_packed_arrays(sizes, dtype, reduction, packed):
    if reduction == "adasum" and np.dtype(dtype).kind == "i":
        with pytest.raises(ValueError, match="adasum"):
            adasum.allreduce_arrays(_arrays(sizes, dtype), reduction)
        return
    expected = _arrays(sizes, dtype)
    adasum.allreduce_arrays(expected, reduction, packed)
    for _ in range(CALLS):
        arrays = _arrays(sizes, dtype)
        adasum.allreduce_arrays(arrays, reduction)
        for array, wanted in zip(arrays, expected, strict=True):
            assert array.tobytes() == wanted.tobytes()


def _events(folder, **options):
    """What the timeline has of some allreduces of one long array."""
    options["timeline"] = str(folder / "trace")
    group = adasum.world().split(color=0, options=options)
    for _ in range(CALLS):
        adasum.allreduce_arrays(_arrays([300_001], "float32"), "adasum", group, "step")
    group.close()  # which ends its timeline
    (written,) = folder.iterdir()
    return timeline.read(written)


def test_arrays_are_copied_where_the_system_lets_ranks(tmp_path_factory):
    events = _events(tmp_path_factory.mktemp("timeline"))
    copied = {event["name"] for event in events} & {"fetch", "store"}
    assert copied == ({"fetch", "store"} if _may_copy() else set())
    # What an allreduce moves is the same either way, up to where tensors lie.
    of_calls = [num_bytes for name, num_bytes in timeline.sent_bytes(events) if name == "step"]
    assert len(of_calls) == CALLS
    assert max(of_calls) - min(of_calls) <= 0.1 * min(of_calls)


@pytest.mark.parametrize("option", ["cross_memory", "shared_memory"])
def test_nothing_is_copied_without_the_option(option, tmp_path_factory):
    events = _events(tmp_path_factory.mktemp("timeline"), **{option: False})
    assert not {event["name"] for event in events} & {"fetch", "store"}
