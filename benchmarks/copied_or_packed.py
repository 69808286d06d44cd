"""Times allreduces of ordinary arrays where ranks may copy across and where they must pack.

    adasumrun -np 2 python -m benchmarks.copied_or_packed --seconds_by_distance=20

In turns, with one array of floats for each size, in place, as malloc maps it: outside of the arena.
Ranks that may copy from and to each other's arrays choose between that and packing
(CrossMemoryPolicy); the others are a group with cross_memory=False. All look first whether arrays
are mapped.
Columns: median ms of both, and the ratio of the first to the second.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Callable

import numpy as np
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.interleaved import interleave_case
from benchmarks.machine import CoreDistance

FLAGS = flags.FLAGS
flags.DEFINE_multi_integer("exponent", [14, 16, 18, 20, 22], "Arrays of 2^n floats.", lower_bound=9)
flags.DEFINE_multi_string("reduction", ["adasum", "sum"], "Reductions.")
flags.DEFINE_integer("repetitions", 301, "Repetitions of each.", lower_bound=1)
flags.DEFINE_float(
    "seconds_by_distance",
    0,
    "If positive: figures apart for near and far cores, as in benchmarks.allreduce; for two ranks.",
)


def main(_) -> None:
    """Measures all sizes, and reports on rank 0."""
    groups = {
        "may copy": adasum.world().split(color=0, options={"cross_memory": True}),
        "must pack": adasum.world().split(color=0, options={"cross_memory": False}),
    }
    distance = CoreDistance(MPI.COMM_WORLD) if FLAGS.seconds_by_distance > 0 else None
    figures = []
    for exponent in FLAGS.exponent:
        for reduction in FLAGS.reduction:
            ways = _ways(2**exponent, reduction, groups)
            found = interleave_case(
                *(MPI.COMM_WORLD, f"2^{exponent}", ways, FLAGS.repetitions),
                *(distance, FLAGS.seconds_by_distance),
            )
            for case, seconds in found.items():
                figures.append({"floats": case, "reduction": reduction} | _figures(seconds))
    if adasum.rank() == 0:
        print(tabulate(figures, headers="keys", tablefmt="github", floatfmt=".3g"))


def _ways(
    size: int, reduction: str, groups: dict[str, adasum.Communicator]
) -> dict[str, tuple[Callable, Callable]]:
    """One array for both: where it lies counts as much as the way."""
    values = np.random.default_rng(adasum.rank()).standard_normal(size, np.float32)
    array = values.copy()
    return {
        name: (
            lambda group=group: adasum.allreduce_arrays([array], reduction, group),
            lambda: np.copyto(array, values),
        )
        for name, group in groups.items()
    }


def _figures(seconds: dict[str, list[float]]) -> dict[str, float]:
    medians = {name: 1e3 * float(np.median(times)) for name, times in seconds.items()}
    return medians | {"ratio": medians["may copy"] / medians["must pack"]}


if __name__ == "__main__":
    app.run(main)
