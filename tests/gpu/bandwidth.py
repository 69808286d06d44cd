"""How fast the kernels move bytes, beside the device's own copy.

Columns: time, median of --repeat; GB/s, bytes that must be read and written over that time; of
copy, that over the GB/s of a device-to-device copy of 2^28 bytes, measured in the same process.
Vectors have 2^28 bytes each unless the line names a list. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.gradient_lists import LISTS
from tests.gpu.device_arrays import open_device
from tests.gpu.element_types import BYTES, FLOATS
from tests.gpu.kernels import Kernels, Operands

NUM_BYTES = 2**28
LEAST_OF_COPY = 0.85
MOST_OF_FLAT = 1.2


class Bench:
    """Two random vectors, room for a result, and the timings so far."""

    def __init__(self, kernels: Kernels, repeat: int):
        self.kernels, self.device, self.repeat = kernels, kernels.device, repeat
        # Float32 bit patterns of both signs and many magnitudes are usable as any float dtype.
        values = np.random.default_rng(0).standard_normal(NUM_BYTES // 4).astype(np.float32)
        self.left, self.right = self.device.to_device(values), self.device.to_device(values[::-1])
        self.out = self.device.empty(NUM_BYTES)

    def milliseconds(self, call: Callable[[], None]) -> float:
        """Returns the median time of a call after three that don't count."""
        self.device.milliseconds(call, 3)
        return statistics.median(self.device.milliseconds(call, self.repeat))

    def pieces(self, dtype: str, num_elements: Sequence[int]) -> list[Operands]:
        """Returns segments packed one behind the other."""
        bases = [self.device.address(buffer) for buffer in (self.left, self.right, self.out)]
        pieces, offset = [], 0
        for count in num_elements:
            pieces.append(Operands(*[base + offset for base in bases], count))
            offset += count * BYTES[dtype]
        return pieces

    def moments(self, dtype: str, num_elements: Sequence[int]) -> float:
        """Times the moments of a list in one bucket."""
        work = self.kernels.work(dtype, self.pieces(dtype, num_elements), BYTES[dtype])
        return self.milliseconds(work.launch_moments)

    def combine(self, dtype: str, num_elements: Sequence[int]) -> float:
        """Times the combine of a list in one bucket."""
        work = self.kernels.work(dtype, self.pieces(dtype, num_elements), BYTES[dtype])
        halves = self.device.to_device(np.full((len(num_elements), 2), 0.5))
        address = ctypes.c_void_p(self.device.address(halves))
        return self.milliseconds(lambda: work.launch("combine", address))

    def copy(self, dtype: str, num_elements: Sequence[int]) -> float:
        """Times a pack of a list in one bucket."""
        work = self.kernels.work(dtype, self.pieces(dtype, num_elements), BYTES[dtype])
        return self.milliseconds(lambda: work.launch("copy"))


def main(argv: list[str] | None = None) -> int:
    """Prints the table; returns 0 if all limits were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=50)
    bench = Bench(Kernels(open_device()), parser.parse_args(argv).repeat)
    copy_rate = 2 * NUM_BYTES / bench.milliseconds(lambda: bench.device.copy(bench.out, bench.left))
    print(f"{bench.device.name()}: device copy {copy_rate / 1e6:.0f} GB/s")
    print(f"{'kernel':34} {'ms':>8} {'GB/s':>6} {'of copy':>8}")
    missed = []
    for dtype in FLOATS:
        whole = [NUM_BYTES // BYTES[dtype]]
        for name, time, passes in (("moments", bench.moments, 2), ("combine", bench.combine, 3),
                                   ("pack", bench.copy, 2)):  # fmt: skip
            ms = time(dtype, whole)
            ratio = passes * NUM_BYTES / ms / copy_rate
            print(f"{name + ' ' + dtype:34} {ms:8.4f} {ratio * copy_rate / 1e6:6.0f} {ratio:8.3f}")
            if ratio < LEAST_OF_COPY and name != "pack":
                missed.append(f"{name} {dtype}: {ratio:.3f} of copy, expected {LEAST_OF_COPY}")
    missed += _compare_lists(bench)
    for line in missed:
        print(f"MISSED  {line}")
    return 1 if missed else 0


def _compare_lists(bench: Bench) -> list[str]:
    """Times lists of many segments against one flat segment of as many bytes."""
    resnet = [int(np.prod(shape)) for shape in LISTS["resnet50"]()]
    lists = {"resnet50": resnet, "10,000 segments of 257": [257] * 10_000}
    missed = []
    for title, counts in lists.items():
        for name, time in (("moments", bench.moments), ("combine", bench.combine)):
            flat, listed = time("float32", [sum(counts)]), time("float32", counts)
            print(f"{name + ' ' + title:34} {listed:8.4f}   {listed / flat:.3f} x one flat segment")
            if title == "resnet50" and listed > MOST_OF_FLAT * flat:
                missed.append(f"{name} {title}: {listed / flat:.3f} x flat, at most {MOST_OF_FLAT}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
