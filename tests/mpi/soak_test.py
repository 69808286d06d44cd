"""Ten thousand allreduces of random sizes and dtypes leave nothing behind in the process."""

import ctypes
import itertools
import os
import zlib

import numpy as np
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum

NUM_ALLREDUCES = 10_000
# Elements of one tensor; memory that grows to the largest size ever seen is asked for at once.
MOST_ELEMENTS = 2**19
DTYPES = ["float32", "float16", "bfloat16", "float64"]
MOST_TENSORS = 4
# Samples of the resident memory, the first after the warm-up.
NUM_SAMPLES = 20


def _resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Mallinfo2(ctypes.Structure):
    """What glibc's mallinfo2() returns."""

    _NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = tuple((name, ctypes.c_size_t) for name in _NAMES.split())


def _allocated_bytes():
    """What malloc has given and not got back: no fragment of the heap changes it."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def _open_files():
    """What descriptors point to, with the numbers of sockets and pipes left out."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}").partition("[")[0])
        except FileNotFoundError:  # the listing's own
            continue
    return sorted(links)


def _mapped_files():
    with open("/proc/self/maps") as maps:
        fields = [line.split(maxsplit=5) for line in maps]
    return sorted({field[5] for field in fields if len(field) == 6 and "/" in field[5]})


def _random_sizes(rng, number):
    """Zero now and then; else as many small ones as large ones on a scale of powers."""
    exponents = rng.uniform(0, np.log2(MOST_ELEMENTS), number)
    return np.where(rng.random(number) < 0.02, 0, 2**exponents).astype(int)


class _Soak:
    """Allreduces whose sizes are equal on all ranks and whose values are not."""

    def __init__(self):
        self._rng = np.random.default_rng(0)
        values = np.random.default_rng(adasum.rank()).standard_normal(MOST_ELEMENTS)
        self._sources = {dtype: tf.constant(values, dtype) for dtype in DTYPES}
        self.checksum = 0

    def reduce_largest(self):
        """Twice: workspaces and packed buffers are used in turn."""
        for _ in range(2):
            for reduction in ("adasum", "sum"):
                adasum.allreduce(list(self._sources.values()), reduction)

    def reduce_all_kinds(self):
        """TensorFlow keeps a kernel for each list of dtypes and reduction that it has seen."""
        for number in range(1, MOST_TENSORS + 1):
            for dtypes in itertools.product(DTYPES, repeat=number):
                tensors = [self._sources[dtype][:1] for dtype in dtypes]
                for reduction in ("adasum", "sum"):
                    adasum.allreduce(tensors, reduction)

    def reduce_random(self):
        """One tensor half of the time, else a list of up to four."""
        number = 1 if self._rng.random() < 0.5 else self._rng.integers(1, MOST_TENSORS + 1)
        sizes = _random_sizes(self._rng, number) // number
        dtypes = self._rng.choice(DTYPES, number)
        tensors = [self._sources[dtype][:size] for dtype, size in zip(dtypes, sizes, strict=True)]
        reduction = self._rng.choice(["adasum", "sum"])
        results = adasum.allreduce(tensors[0] if number == 1 else tensors, str(reduction))
        for result in tf.nest.flatten(results)[:1]:
            self.checksum = zlib.crc32(result[-100:].numpy().tobytes(), self.checksum)


def test_ten_thousand_allreduces_leave_the_process_as_it_was():
    soak = _Soak()
    soak.reduce_largest()
    soak.reduce_all_kinds()
    for _ in range(NUM_ALLREDUCES // 10):
        soak.reduce_random()
    open_files, mapped_files = _open_files(), _mapped_files()
    resident, allocated = [_resident_bytes()], [_allocated_bytes()]
    for _ in range(1, NUM_SAMPLES):
        for _ in range(NUM_ALLREDUCES // (NUM_SAMPLES - 1)):
            soak.reduce_random()
        resident.append(_resident_bytes())
        allocated.append(_allocated_bytes())
    # Before anything fails on one rank, lest the others wait here.
    assert MPI.COMM_WORLD.allgather(soak.checksum) == [soak.checksum] * adasum.size()
    print(f"resident MiB: {[round(number / 2**20, 1) for number in resident]}")
    print(f"bytes that malloc gave and did not get back: {np.diff(allocated).tolist()}")
    # A leak of 25 bytes per allreduce fails here.
    assert allocated[-1] - allocated[0] < 25 * NUM_ALLREDUCES
    # The heap may need the largest list once more for what is in pieces, on top of what mmap took.
    assert resident[-1] - resident[0] < 2**23 + MOST_ELEMENTS * (4 + 2 + 2 + 8)
    assert _open_files() == open_files
    assert _mapped_files() == mapped_files
