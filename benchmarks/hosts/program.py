"""What every rank runs: allreduces of single tensors and gradient lists, interleaved with MPI's.

benchmarks.hosts starts it. Rank 0 writes its figures, in seconds, to the JSON file that is named.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from benchmarks.gradient_lists import LISTS
from benchmarks.interleaved import interleave
from tf_adasum import compression

CODECS = {
    "identity": compression.Identity(),
    "float16": compression.Float16(),
    "bfloat16": compression.BFloat16(),
    "sign": compression.Sign(),
    "top_k": compression.TopK(0.01),
    "threshold": compression.Threshold(0.01),
    "quantized": compression.Quantized(4),
    "sketch": compression.Sketch(0.01, 0.04),
}
# This host's end of the wire.
_DEVICE = "eth0"


def main(path: str, repetitions: int, codecs: list[str], cases: list[str]) -> None:
    """Measures the cases, each the name of a gradient list or the elements of one tensor."""
    world = adasum.world()
    rows = []
    for case in cases:
        shapes = LISTS[case]() if case in LISTS else [(int(case),)]
        num_bytes = 4 * sum(int(np.prod(shape)) for shape in shapes)
        methods = _methods(shapes, codecs)
        timings = interleave(MPI.COMM_WORLD, methods, repetitions)
        sent = {name: _sent_by(method) for name, method in methods.items()}
        rows.append({"case": case, "bytes": num_bytes, "seconds": timings, "sent": sent})
    if world.rank == 0:
        with open(path, "w") as file:
            json.dump({"ranks": world.size, "hosts": len(world.hosts), "rows": rows}, file)


def _sent_by(method: Callable) -> int:
    """What left this host in one call, with the headers of all packets, in bytes."""
    MPI.COMM_WORLD.Barrier()
    before = _sent_bytes()
    method()
    MPI.COMM_WORLD.Barrier()
    return _sent_bytes() - before


def _sent_bytes() -> int:
    """As Linux counts them in this process' network namespace."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        device, _, counts = line.partition(":")
        if device.strip() == _DEVICE:
            return int(counts.split()[8])
    raise RuntimeError(f"Expected a network device {_DEVICE}. Received: none on this host.")


def _methods(shapes: list, codecs: list[str]) -> dict:
    sizes = [int(np.prod(shape)) for shape in shapes]
    flat = np.random.default_rng(adasum.rank()).standard_normal(sum(sizes), np.float32)
    result = np.empty_like(flat)
    arrays = np.split(flat, np.cumsum(sizes)[:-1])
    tensors = [tf.constant(array, shape=shape) for array, shape in zip(arrays, shapes, strict=True)]
    return {
        "MPI": lambda: MPI.COMM_WORLD.Allreduce(flat, result),
        "sum": lambda: adasum.allreduce(tensors, "sum"),
        "Adasum": lambda: adasum.allreduce(tensors, "adasum"),
        "sum inside, Adasum across": lambda: adasum.allreduce(tensors, local_reduction="sum"),
        **{f"Adasum, {name}": _encoded(tensors, CODECS[name]) for name in codecs},
    }


def _encoded(tensors: list[tf.Tensor], codec: compression.Compression) -> Callable:
    state = compression.State(tensors, codec)
    return lambda: adasum.allreduce(tensors, compression=codec, state=state)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [c for c in sys.argv[3].split(",") if c], sys.argv[4:])
