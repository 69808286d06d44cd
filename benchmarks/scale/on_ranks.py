"""What the ranks run for benchmarks.scale: they time allreduces and what those are made of.

Rank 0 writes a JSON. Arguments: its path, and a JSON of what is asked for (`main`).
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from benchmarks.interleaved import interleave
from benchmarks.scale.cases import sizes_of
from benchmarks.traced import trace

_HIERARCHICAL = "hierarchical"  # the others are names of reductions
_SPANS = {
    "pack": ("copy",),
    "moments": ("moments",),
    "combine": ("combine", "add"),
    "deliver": ("deliver",),
    "total": ("allreduce_arrays",),
}
_STREAM_BYTES = 32 << 20


def main(path: str, asked: dict) -> None:
    """Times what is asked for.

    Args:
        path: where rank 0 writes.
        asked: "cases" and "methods" to be timed, "repetitions" of each, "passes": cases whose
            passes are timed one by one, "stream": whether MPI's rate between ranks 0 and 1 is,
            "real_time": see `_take_core`.
    """
    world = adasum.world()
    if asked.get("real_time"):
        _take_core(world.rank)
    found: dict = {"times": {}, "passes": {}, "load": os.getloadavg()[0]}
    for case in asked["cases"]:
        arrays = _arrays(case)
        methods = {name: _call(arrays, name) for name in asked["methods"]}
        found["times"][case] = interleave(MPI.COMM_WORLD, methods, asked["repetitions"])
    for case in asked.get("passes", []):
        for method in ("sum", "adasum"):
            found["passes"][f"{case} {method}"] = _passes(_arrays(case), method)
    if asked.get("stream"):
        found["stream_bytes_per_second"] = _stream()
    if world.rank == 0:
        with open(path, "w") as file:
            json.dump(found, file)


def _take_core(rank: int) -> None:
    """From now on this thread gives its core to none but other ranks; needs root.

    A rank that waits yields its core, for 4 ms if anything else wants it. Where the machine has
    other load nothing could be timed.
    """
    os.sched_setaffinity(0, {rank % (os.cpu_count() or 1)})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _arrays(case: str) -> list[np.ndarray]:
    random = np.random.default_rng(adasum.rank())
    return [random.standard_normal(size, np.float32) for size in sizes_of(case)]


def _call(arrays: list[np.ndarray], method: str) -> Callable:
    """In place, but for a local reduction, which the op alone has."""
    if method != _HIERARCHICAL:
        return lambda: adasum.allreduce_arrays(arrays, method)
    tensors = [tf.constant(array) for array in arrays]
    return lambda: adasum.allreduce(tensors, local_reduction="sum")


def _passes(arrays: list[np.ndarray], method: str, repetitions: int = 25) -> dict[str, float]:
    """Seconds of each pass of an allreduce, and of the whole; the mean of the ranks.

    All spans of a pass are alike for these cases: the median is free of what else ran meanwhile.
    """
    _call(arrays, method)()

    def repeat(communicator: adasum.Communicator) -> None:
        for _ in range(repetitions):
            adasum.allreduce_arrays(arrays, method, communicator)

    events = [event for event in trace(repeat) if event["ph"] == "X"]
    seconds = {}
    for name, spans in _SPANS.items():
        durations = [event["dur"] for event in events if event["name"] in spans]
        mine = 1e-6 * float(np.median(durations)) * len(durations) if durations else 0.0
        seconds[name] = MPI.COMM_WORLD.allreduce(mine) / adasum.size() / repetitions
    return seconds


def _stream(repetitions: int = 5) -> float:
    """Bytes that ranks 0 and 1 send each other at the same time, by the second; the median."""
    comm = MPI.COMM_WORLD
    sent, received = np.ones(_STREAM_BYTES, np.uint8), np.empty(_STREAM_BYTES, np.uint8)
    rates = []
    for _ in range(repetitions + 1):
        comm.Barrier()
        begin = time.perf_counter()
        if comm.rank < 2:
            comm.Sendrecv(sent, 1 - comm.rank, 0, received, 1 - comm.rank, 0)
        rates.append(_STREAM_BYTES / comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    return float(np.median(rates[1:]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
