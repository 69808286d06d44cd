"""Times broadcast, allgather and alltoall beside MPI's, interleaved, on all ranks.

    adasumrun -np 2 python -m benchmarks.copies --mib=1 --mib=16 --seconds_by_distance=10

Each rank passes one float32 tensor of so many MiB. Columns: median ms of ours (the op, called
eagerly, with outputs of its own), of ours where tensors are not mapped, as without adasumrun
(TF_ADASUM_CROSS_MEMORY=0: packed), and of MPI's from buffer to buffer; the ratio of the first to
the last.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import json
import statistics
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.interleaved import interleave_case
from benchmarks.machine import CoreDistance

FLAGS = flags.FLAGS
flags.DEFINE_multi_float("mib", [0.25, 1, 4, 16, 64], "MiB of each rank's tensor.", lower_bound=0)
flags.DEFINE_integer("repetitions", 21, "Repetitions of each.", lower_bound=1)
flags.DEFINE_float(
    "seconds_by_distance",
    0,
    "If positive: figures apart for near and far cores, as in benchmarks.allreduce; for two ranks.",
)
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
_KINDS = ("broadcast", "allgather", "alltoall")


def main(_) -> None:
    """Measures all sizes, and reports on rank 0."""
    unmapped = adasum.world().split(color=0, options={"zero_copy": False})
    distance = CoreDistance(MPI.COMM_WORLD) if FLAGS.seconds_by_distance > 0 else None
    figures = []
    for mib in FLAGS.mib:
        ways = _ways(mib, unmapped)
        found = interleave_case(
            *(MPI.COMM_WORLD, f"{mib:g} MiB", ways, FLAGS.repetitions),
            *(distance, FLAGS.seconds_by_distance),
        )
        for case, seconds in found.items():
            figures += _figures(case, seconds)
    if adasum.rank() == 0:
        print(tabulate(figures, headers="keys", tablefmt="github", floatfmt=".3g"))
        if FLAGS.json:
            with open(FLAGS.json, "w") as file:
                json.dump(figures, file, indent=1)


def _ways(mib: float, unmapped: adasum.Communicator) -> dict[str, Callable]:
    size = MPI.COMM_WORLD.size
    elements = int(mib * 2**18) // size * size
    tensor = tf.random.normal([elements])
    mine = tensor.numpy()
    dealt, gathered = np.empty_like(mine), np.empty(size * elements, np.float32)
    ways = {
        "broadcast, MPI": lambda: MPI.COMM_WORLD.Bcast(dealt),
        "allgather, MPI": lambda: MPI.COMM_WORLD.Allgather(mine, gathered),
        "alltoall, MPI": lambda: MPI.COMM_WORLD.Alltoall(mine, dealt),
    }
    for kind in _KINDS:
        operation = getattr(adasum, kind)
        ways[f"{kind}, ours"] = lambda run=operation: run(tensor)
        ways[f"{kind}, not mapped"] = lambda run=operation: run(tensor, communicator=unmapped)
    return ways


def _figures(case: str, seconds: dict[str, list[float]]) -> list[dict]:
    rows = []
    for kind in _KINDS:
        ours, not_mapped, mpi = (
            1e3 * statistics.median(seconds[f"{kind}, {way}"])
            for way in ("ours", "not mapped", "MPI")
        )
        rows.append({"tensor": case, "operation": kind, "ours": ours, "not mapped": not_mapped})
        rows[-1] |= {"MPI": mpi, "ours / MPI": ours / mpi}
    return rows


if __name__ == "__main__":
    app.run(main)
