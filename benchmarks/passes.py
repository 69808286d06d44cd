"""Times each pass over memory of allreduces in place, by the library's own timeline.

    adasumrun -np 2 python -m benchmarks.passes    # TF_ADASUM_CROSS_MEMORY=0: packed

Columns: milliseconds of one allreduce, the mean of all ranks. pack = copying what peers combine to
where they read it, or fetching it from them; moments = inner products; combine, or add for a sum;
deliver = fetching the parts that peers combined, or storing into their arrays; wait = waiting for
them, and telling them; total = all from call to return. Keeping the timeline costs about a
microsecond for each of some hundred spans.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks import gradient_lists, traced

FLAGS = flags.FLAGS
flags.DEFINE_integer("repetitions", 30, "Allreduces of each case, after one that is not timed.")
flags.DEFINE_integer("exponent", 26, "The single tensor has 2^this float32 elements.")
flags.DEFINE_string("list", "resnet50", "A gradient list: " + ", ".join(gradient_lists.LISTS))

_CALL = "allreduce_arrays"
# Spans of the timeline, by column.
_COLUMNS = {
    "pack": ("copy", "fetch"),
    "moments": ("moments",),
    "combine": ("combine", "add"),
    "deliver": ("deliver", "store"),
    "wait": ("exchange", "message", "barrier"),
    "total": (_CALL,),
}


def main(_) -> None:
    """Prints one line for every case and reduction."""
    cases = {
        FLAGS.list: gradient_lists.LISTS[FLAGS.list](),
        f"2^{FLAGS.exponent}": [(2**FLAGS.exponent,)],
    }
    if adasum.rank() == 0:
        print(f"{adasum.size()} ranks, {os.cpu_count()} cores\n")
    rows = []
    for case, shapes in cases.items():
        random = np.random.default_rng(adasum.rank())
        arrays = [random.standard_normal(shape, np.float32) for shape in shapes]
        for reduction in ("sum", "adasum"):
            rows.append([case, reduction, *_milliseconds(arrays, reduction).values()])
    if adasum.rank() == 0:
        print(tabulate(rows, ["case", "reduction", *_COLUMNS], "pipe", floatfmt=".2f"))


def _milliseconds(arrays: list[np.ndarray], reduction: str) -> dict[str, float]:
    """Means over repetitions and ranks, by column."""
    adasum.allreduce_arrays(arrays, reduction)

    def repeat(communicator: adasum.Communicator) -> None:
        for _ in range(FLAGS.repetitions):
            adasum.allreduce_arrays(arrays, reduction, communicator)

    events = [event for event in traced.trace(repeat) if event["ph"] == "X"]
    means = {}
    for column, names in _COLUMNS.items():
        microseconds = sum(event["dur"] for event in events if event["name"] in names)
        of_all = MPI.COMM_WORLD.allreduce(microseconds) / adasum.size()
        means[column] = of_all / FLAGS.repetitions / 1e3
    return means


if __name__ == "__main__":
    app.run(main)
