"""Times allreduces of single tensors and of whole gradient lists, interleaved, on all ranks.

    adasumrun -np 2 python -m benchmarks.allreduce --json=allreduce.json --plot=allreduce.png

Methods: MPI's Allreduce(SUM) of one flat buffer and tensor by tensor, from one buffer to another
and in place; our sum and adasum through the TensorFlow op, which has outputs of its own, and of
NumPy arrays in place (allreduce_arrays), also of arrays in shared memory, which nobody packs
(adasum.empty). adasumrun sees to it that the op's tensors lie in shared memory too; "packed" is the
op as it is without that.

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

import json
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI

import tf_adasum as adasum
from benchmarks import report
from benchmarks.gradient_lists import LISTS
from benchmarks.interleaved import interleave
from benchmarks.machine import ping_pong_seconds
from benchmarks.traced import count_sent_bytes

FLAGS = flags.FLAGS
flags.DEFINE_integer("min_exponent", 8, "Smallest single tensor: 2^this float32 elements.")
flags.DEFINE_integer("max_exponent", 26, "Largest single tensor: 2^this float32 elements.")
flags.DEFINE_multi_enum("list", list(LISTS), list(LISTS), "Gradient lists.")
flags.DEFINE_integer("repetitions", 0, "Repetitions of each; 0 chooses by size.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
flags.DEFINE_string("plot", None, "Where rank 0 writes a plot, a PNG.")


def main(_) -> None:
    """Measures every case and reports on rank 0."""
    world = adasum.world()
    # The same ranks and algorithms, without shared memory; and with packed tensors.
    others = {
        "mpi only": world.split(color=0, options={"shared_memory": False}),
        "packed": world.split(color=0, options={"zero_copy": False}),
    }
    cases = {f"2^{k}": [(2**k,)] for k in range(FLAGS.min_exponent, FLAGS.max_exponent + 1, 2)}
    cases.update({name: LISTS[name]() for name in FLAGS.list})
    rows = []
    for name, shapes in cases.items():
        num_bytes = 4 * sum(int(np.prod(shape)) for shape in shapes)
        if not _fits(num_bytes):
            if world.rank == 0:
                print(f"{name:>10} left out: it does not fit the memory with {world.size} ranks")
            continue
        repetitions = FLAGS.repetitions or int(np.clip(2**28 / num_bytes, 7, 200))
        tensors, methods = _methods(name, shapes, others)
        hop_us = 1e6 * ping_pong_seconds(MPI.COMM_WORLD)
        timings = interleave(MPI.COMM_WORLD, methods, repetitions)
        sent = _most_sent_bytes(tensors)
        new_rows = report.rows(name, num_bytes, world.size, timings, sent, hop_us)
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
    needed = 5 * num_bytes * adasum.local_size() * 1.1
    return MPI.COMM_WORLD.allreduce(needed < available * 1024, MPI.LAND)


def _most_sent_bytes(tensors: list[tf.Tensor]) -> dict[str, int]:
    """Of our methods that use shared memory, the bytes that the busiest rank sent."""
    sent = {}
    for reduction in ("sum", "adasum"):
        mine = count_sent_bytes(lambda comm, how=reduction: adasum.allreduce(tensors, how, comm))
        sent[reduction] = MPI.COMM_WORLD.allreduce(mine, MPI.MAX)
    return sent


def _methods(
    name: str, shapes: list, others: dict[str, adasum.Communicator]
) -> tuple[list[tf.Tensor], dict[str, Callable]]:
    """The tensors, and every way of reducing the same values, as functions without arguments."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    flat = np.random.default_rng(adasum.rank()).standard_normal(sum(sizes), np.float32)
    flat_result = np.zeros_like(flat)
    # Views: lists of more than a gigabyte are held once.
    arrays = np.split(flat, np.cumsum(sizes)[:-1])
    results = np.split(flat_result, np.cumsum(sizes)[:-1])
    tensors = [tf.constant(array, shape=shape) for array, shape in zip(arrays, shapes, strict=True)]

    shared = _in_arena(sizes)
    # Sums of sums of sums become infinite, but for zeros; of what is long few are made.
    summed = shared if sum(sizes) > 2**26 else _in_arena(sizes)
    for array, values in zip(shared, arrays, strict=True):
        np.copyto(array, values)

    def mpi_one_by_one():
        for array, result in zip(arrays, results, strict=True):
            MPI.COMM_WORLD.Allreduce(array, result)

    def mpi_one_by_one_in_place():
        for result in results:
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, result)

    def memcpy():
        for array, result in zip(arrays, results, strict=True):
            np.copyto(result, array)

    def through_op(reduction, communicator=None):
        # Eagerly: a tf.function's own call takes longer than a small allreduce.
        return lambda: adasum.allreduce(tensors, reduction, communicator, name)

    return tensors, {
        "memcpy": memcpy,  # first: it makes anew what is reduced in place
        "mpi flat": lambda: MPI.COMM_WORLD.Allreduce(flat, flat_result),
        "mpi one by one": mpi_one_by_one,
        "mpi flat, in place": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, flat_result),
        "mpi one by one, in place": mpi_one_by_one_in_place,
        "sum": through_op("sum"),
        "adasum": through_op("adasum"),
        "adasum, mpi only": through_op("adasum", others["mpi only"]),
        "adasum, packed": through_op("adasum", others["packed"]),
        "sum, in place": lambda: adasum.allreduce_arrays(results, "sum"),
        "adasum, in place": lambda: adasum.allreduce_arrays(results, "adasum"),
        "sum, nothing packed": lambda: adasum.allreduce_arrays(summed, "sum"),
        "adasum, nothing packed": lambda: adasum.allreduce_arrays(shared, "adasum"),
    }


def _in_arena(sizes: list[int]) -> list[np.ndarray]:
    """Zeros where the other ranks reach them."""
    arrays = [adasum.empty(size, np.float32) for size in sizes]
    for array in arrays:
        array.fill(0)
    return arrays


if __name__ == "__main__":
    app.run(main)
