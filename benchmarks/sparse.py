"""Times the allreduce of the rows of an embedding beside that of the dense tensor, interleaved.

    adasumrun -np 2 python -m benchmarks.sparse --json=sparse.json

Every rank has other rows, drawn at random, of a table of float32. Columns: median and quartiles in
ms over the repetitions (each the time of the slowest rank); ratio to the dense allreduce of the
same reduction; sent = bytes that a rank sent, the most of any rank, and their ratio to the dense
allreduce's. Before it measures it compares the two results.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import json

import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI

import tf_adasum as adasum
from benchmarks.interleaved import interleave
from benchmarks.traced import count_sent_bytes

FLAGS = flags.FLAGS
flags.DEFINE_integer("rows", 200_000, "Rows of the table.", lower_bound=1)
flags.DEFINE_integer("columns", 64, "Columns of the table.", lower_bound=1)
flags.DEFINE_float("share", 0.01, "Share of the rows that each rank has.", 0, 1)
flags.DEFINE_integer("repetitions", 21, "Repetitions of each.", lower_bound=1)
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
_TOLERANCE = 1e-6


def main(_) -> None:
    """Measures adasum, sum and mean, and reports on rank 0."""
    rows = _make_rows()
    dense = tf.convert_to_tensor(rows)
    figures = []
    for reduction in ("adasum", "mean", "sum"):
        _check_equal(rows, dense, reduction)
        operations = {
            name: lambda comm=None, value=value, how=reduction: adasum.allreduce(value, how, comm)
            for name, value in (("dense", dense), ("rows", rows))
        }
        seconds = interleave(MPI.COMM_WORLD, operations, FLAGS.repetitions)
        sent = {
            name: MPI.COMM_WORLD.allreduce(count_sent_bytes(operation), MPI.MAX)
            for name, operation in operations.items()
        }
        figures += _figures(reduction, seconds, sent)
    if adasum.rank() == 0:
        _report(figures)


def _make_rows() -> tf.IndexedSlices:
    random = np.random.default_rng(adasum.rank())
    indices = random.choice(FLAGS.rows, int(FLAGS.rows * FLAGS.share), replace=False)
    values = random.standard_normal((len(indices), FLAGS.columns), np.float32)
    shape = tf.constant([FLAGS.rows, FLAGS.columns])
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), shape)


def _check_equal(rows: tf.IndexedSlices, dense: tf.Tensor, reduction: str) -> None:
    of_rows = tf.convert_to_tensor(adasum.allreduce(rows, reduction))
    error = float(tf.reduce_max(tf.abs(of_rows - adasum.allreduce(dense, reduction))))
    if not error <= _TOLERANCE * adasum.size():
        raise AssertionError(
            f"Expected the dense {reduction} to {_TOLERANCE * adasum.size()}. Received: {error} "
            f"off, on rank {adasum.rank()}."
        )


def _figures(reduction: str, seconds: dict, sent: dict) -> list[dict]:
    median = {name: float(np.median(times)) for name, times in seconds.items()}
    return [
        {
            "reduction": reduction,
            "method": name,
            "ms": [1e3 * float(q) for q in np.quantile(seconds[name], [0.5, 0.25, 0.75])],
            "ratio": median[name] / median["dense"],
            "sent": sent[name],
            "sent ratio": sent[name] / max(sent["dense"], 1),
        }
        for name in seconds
    ]


def _report(figures: list[dict]) -> None:
    print("reduction method  median ms (quartiles)    ratio       sent  ratio")
    for row in figures:
        median, low, high = row["ms"]
        print(
            f"{row['reduction']:9} {row['method']:6} {median:9.2f} ({low:.2f} to {high:.2f})"
            f" {row['ratio']:8.3f} {row['sent']:10} {row['sent ratio']:6.3f}"
        )
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump({"ranks": adasum.size(), "rows": figures}, file, indent=1)


if __name__ == "__main__":
    app.run(main)
