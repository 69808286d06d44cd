"""Times allreduces of single tensors and of whole gradient lists, interleaved, on all ranks.

    adasumrun -np 2 python -m benchmarks.allreduce --json=allreduce.json --plot=allreduce.png

Methods: MPI's Allreduce(SUM) of one flat buffer and tensor by tensor, from one buffer to another
and in place; our sum and adasum through the TensorFlow op, which has outputs of its own, and of
NumPy arrays in place (allreduce_arrays), also of arrays in shared memory, which nobody packs
(adasum.empty). adasumrun sees to it that the op's tensors lie in shared memory too; "packed" is the
op as it is without that. Before each call, timed or not, every rank writes its operands anew, as a
backward pass does: they are in its own caches, and not where the call before left them.

Columns: median and quartiles in ms over the repetitions (each the time of the slowest rank); ratio
to the better of MPI's two ways (of those in place, for arrays), and to a plain copy;
algbw = bytes of the tensors / time; busbw = algbw * 2 (N - 1) / N, the rate at which a rank must
send, and receive, in any allreduce that is optimal in bytes; hop = half a round trip of 8 bytes
between ranks 0 and 1 by MPI, in us; sent = bytes that a rank sent / bytes of the tensors, counted
in a run of its own and the most of any rank (an optimal allreduce: 2 (N - 1) / N).

A list that does not fit the memory of this machine with so many ranks is left out, and named.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("OMPI_MCA_osc", "^ucx")  # complains of windows that CoreDistance takes

import json
from functools import partial

import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI

import tf_adasum as adasum
from benchmarks import report
from benchmarks.gradient_lists import LISTS
from benchmarks.interleaved import interleave_case
from benchmarks.machine import CoreDistance, ping_pong_seconds
from benchmarks.traced import count_sent_bytes

FLAGS = flags.FLAGS
flags.DEFINE_integer("min_exponent", 8, "Smallest single tensor: 2^this float32 elements.")
flags.DEFINE_integer("max_exponent", 26, "Largest single tensor: 2^this float32 elements.")
flags.DEFINE_multi_enum("list", list(LISTS), list(LISTS), "Gradient lists.")
flags.DEFINE_integer("repetitions", 0, "Repetitions of each; 0 chooses by size.")
flags.DEFINE_float(
    "seconds_by_distance",
    0,
    "If positive: figures apart for cores that share a cache at the moment and for those that share"
    " none, as virtual ones are moved; stops after so many seconds a case though either came"
    " rarely. For two ranks.",
)
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
flags.DEFINE_string("plot", None, "Where rank 0 writes a plot, a PNG.")


def main(_) -> None:
    """Measures every case and reports on rank 0."""
    world = adasum.world()
    # The same ranks and algorithms, without shared memory; and with packed tensors.
    others = {
        "mpi only": world.split(color=0, options={"shared_memory": False}),
        "packed": world.split(color=0, options={"zero_copy": False, "cross_memory": False}),
    }
    cases = {f"2^{k}": [(2**k,)] for k in range(FLAGS.min_exponent, FLAGS.max_exponent + 1, 2)}
    cases.update({name: LISTS[name]() for name in FLAGS.list})
    distance = CoreDistance(MPI.COMM_WORLD) if FLAGS.seconds_by_distance > 0 else None
    rows = []
    for name, shapes in cases.items():
        num_bytes = 4 * sum(int(np.prod(shape)) for shape in shapes)
        if not _fits(num_bytes):
            if world.rank == 0:
                print(f"{name:>10} left out: it does not fit the memory with {world.size} ranks")
            continue
        repetitions = FLAGS.repetitions or int(np.clip(2**28 / num_bytes, 7, 200))
        operands = _Operands(shapes)
        ways = _ways(name, operands, others)
        hop_us = 1e6 * ping_pong_seconds(MPI.COMM_WORLD)
        sent = _most_sent_bytes(operands.tensors)
        found = interleave_case(
            MPI.COMM_WORLD, name, ways, repetitions, distance, FLAGS.seconds_by_distance
        )
        for case, timings in found.items():
            new_rows = report.rows(case, num_bytes, world.size, timings, sent, hop_us)
            if world.rank == 0:
                report.print_rows(new_rows)
            rows += new_rows
    if world.rank == 0 and FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump({"ranks": world.size, "cores": os.cpu_count(), "rows": rows}, file, indent=1)
    if world.rank == 0 and FLAGS.plot:
        report.plot(rows, world.size, FLAGS.plot)


def _fits(num_bytes: int) -> bool:
    """Whether the inputs and results of all ranks here, NumPy's and TensorFlow's, fit."""
    with open("/proc/meminfo") as meminfo:
        available = next(int(line.split()[1]) for line in meminfo if line.startswith("MemAvail"))
    needed = 7 * num_bytes * adasum.local_size() * 1.1
    return MPI.COMM_WORLD.allreduce(needed < available * 1024, MPI.LAND)


def _most_sent_bytes(tensors: list[tf.Tensor]) -> dict[str, int]:
    """Of our methods that use shared memory, the bytes that the busiest rank sent."""
    sent = {}
    for reduction in ("sum", "adasum"):
        mine = count_sent_bytes(lambda comm, how=reduction: adasum.allreduce(tensors, how, comm))
        sent[reduction] = MPI.COMM_WORLD.allreduce(mine, MPI.MAX)
    return sent


class _Operands:
    """The same random values as every method wants them, and what writes them anew."""

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        sizes = [int(np.prod(shape)) for shape in shapes]
        rng = np.random.default_rng(adasum.rank())
        self._values = rng.standard_normal(sum(sizes), np.float32)
        self.flat, self.flat_result = np.zeros_like(self._values), np.zeros_like(self._values)
        # Views: lists of more than a gigabyte are held once.
        ends = np.cumsum(sizes)[:-1]
        self._split_values = np.split(self._values, ends)
        self.arrays, self.results = np.split(self.flat, ends), np.split(self.flat_result, ends)
        self.shared = [adasum.empty(size, np.float32) for size in sizes]  # in the others' reach
        self.tensors = [
            tf.constant(values, shape=shape)
            for values, shape in zip(self._split_values, shapes, strict=True)
        ]

    def renew_flat(self) -> None:
        np.copyto(self.flat, self._values)

    def renew_results(self) -> None:
        np.copyto(self.flat_result, self._values)

    def renew_shared(self) -> None:
        for array, values in zip(self.shared, self._split_values, strict=True):
            np.copyto(array, values)

    def renew_tensors(self) -> None:
        self.tensors = [tf.raw_ops.DeepCopy(x=tensor) for tensor in self.tensors]


def _ways(name: str, operands: _Operands, others: dict[str, adasum.Communicator]) -> dict:
    """Of every way of reducing: a function that does it, and one that writes its operands anew."""

    def through_op(reduction, communicator=None):
        # Eagerly: a tf.function's own call takes longer than a small allreduce.
        return lambda: adasum.allreduce(operands.tensors, reduction, communicator, name)

    ways = _mpi_ways(operands)
    for way, reduction, communicator in [
        ("sum", "sum", None),
        ("adasum", "adasum", None),
        ("adasum, mpi only", "adasum", others["mpi only"]),
        ("adasum, packed", "adasum", others["packed"]),
    ]:
        ways[way] = (through_op(reduction, communicator), operands.renew_tensors)
    for arrays, where, renew in [
        (operands.results, "in place", operands.renew_results),
        (operands.shared, "nothing packed", operands.renew_shared),
    ]:
        for how in ("sum", "adasum"):
            ways[f"{how}, {where}"] = (partial(adasum.allreduce_arrays, arrays, how), renew)
    return ways


def _mpi_ways(operands: _Operands) -> dict:
    """As _ways, by MPI's sum; and a plain copy."""
    world = MPI.COMM_WORLD

    def one_by_one():
        for array, result in zip(operands.arrays, operands.results, strict=True):
            world.Allreduce(array, result)

    def one_by_one_in_place():
        for result in operands.results:
            world.Allreduce(MPI.IN_PLACE, result)

    def memcpy():
        for array, result in zip(operands.arrays, operands.results, strict=True):
            np.copyto(result, array)

    flat = partial(world.Allreduce, operands.flat, operands.flat_result)
    flat_in_place = partial(world.Allreduce, MPI.IN_PLACE, operands.flat_result)
    return {
        "memcpy": (memcpy, operands.renew_flat),
        "mpi flat": (flat, operands.renew_flat),
        "mpi one by one": (one_by_one, operands.renew_flat),
        "mpi flat, in place": (flat_in_place, operands.renew_results),
        "mpi one by one, in place": (one_by_one_in_place, operands.renew_results),
    }


if __name__ == "__main__":
    app.run(main)
