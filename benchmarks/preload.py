"""What the preloaded arena costs and spares in one process: some have it, and some not, in turn.

    python -m benchmarks.preload --rounds=5

Microseconds of the processor's time, medians over the rounds: of TensorFlow's sum of a tensor and
1, which takes memory for its result, of memory that is taken, written and freed as TensorFlow takes
it, and of a small block that is taken and freed by Python.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable

from adasumrun import preload

_MIB = 1 << 20
_LIMIT_SECONDS = 300


def main() -> None:
    """Prints a table; in a process of its own the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_figures()))
        return
    rounds = [(_run({}), _run(preload.variables({}))) for _ in range(options.rounds)]
    print("| | without (us) | with (us) |\n|---|---|---|")
    for name in rounds[0][0]:
        medians = [statistics.median(found[kind][name] for found in rounds) for kind in (0, 1)]
        print(f"| {name} | {medians[0]:.4g} | {medians[1]:.4g} |")


def _run(variables: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.preload", "--measure"],
        env={**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **variables},
        capture_output=True,
        timeout=_LIMIT_SECONDS,
        check=True,
    )
    return json.loads(done.stdout)


def _microseconds(body: Callable[[], object], count: int) -> float:
    body()
    # The processor's time, as other programs take some of the clock's.
    return min(timeit.repeat(body, timer=time.process_time, repeat=5, number=count)) / count * 1e6


def _figures() -> dict[str, float]:
    begin = time.process_time()
    _use(256 * _MIB)
    figures = {"256 MiB, written for the first time": (time.process_time() - begin) * 1e6}
    for size in (100 << 10, _MIB, 16 * _MIB, 64 * _MIB):
        figures.update(_figures_of(size))
    figures["a bytearray of 1,000 bytes"] = _microseconds(lambda: bytearray(1000), 300_000)
    return figures


def _figures_of(size: int) -> dict[str, float]:
    import tensorflow as tf

    tensor = tf.zeros([size // 4])
    count = max(5, 64 * _MIB // size)
    name = f"{size / _MIB:.2g} MiB"
    return {
        f"a tensor of {name}, plus 1": _microseconds(lambda: tensor + 1, count),
        f"memory of {name}, written and freed": _microseconds(lambda: _use(size), count),
    }


def _use(num_bytes: int) -> None:
    libc = ctypes.CDLL(None)
    block = ctypes.c_void_p()
    if libc.posix_memalign(ctypes.byref(block), 64, ctypes.c_size_t(num_bytes)) != 0:
        raise MemoryError(f"expected {num_bytes} bytes of memory. Received: none")
    ctypes.memset(block, 1, num_bytes)
    libc.free(block)


if __name__ == "__main__":
    main()
