"""Times training steps with OrthogonalityLogger and without it, in turns.

    adasumrun -np 2 python -m benchmarks.orthogonality --network=cnn

One model in both: the turns are calls of `fit` that differ in the callback alone, and the order
within a pair of turns alternates. A step's time is that of the slowest rank. Columns: medians and
quartiles in ms; the ratio of the medians; and the median, with quartiles, of the ratios of pairs.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.networks import NETWORKS
from benchmarks.step_times import StepTimes

FLAGS = flags.FLAGS
flags.DEFINE_enum("network", "cnn", list(NETWORKS), "Network to train.")
flags.DEFINE_enum("mode", "delta", ["delta", "gradient"], "Of tf_adasum.wrap.")
flags.DEFINE_integer("batch", 8, "Examples of each rank's step.")
flags.DEFINE_integer("turns", 11, "Pairs of turns.")
flags.DEFINE_integer("steps", 6, "Steps in a turn that are timed; one more goes before them.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")


def main(_) -> None:
    """Times both and prints a table on rank 0."""
    tf.get_logger().setLevel("ERROR")
    on_host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).size
    num_threads = max(1, len(os.sched_getaffinity(0)) // on_host)
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    without, with_it = _turns()
    ratios = np.median(with_it, axis=1) / np.median(without, axis=1)
    row = {
        "network": FLAGS.network,
        "mode": FLAGS.mode,
        "ranks": adasum.size(),
        "without_ms": _quartiles(without * 1e3),
        "with_ms": _quartiles(with_it * 1e3),
        "ratio_of_medians": float(np.median(with_it) / np.median(without)),
        "ratios_of_pairs": _quartiles(ratios),
    }
    if adasum.rank() > 0:
        return
    cells = [_text(value) if isinstance(value, list) else value for value in row.values()]
    print(tabulate([cells], list(row), "github", floatfmt=".3f"), flush=True)
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump(row, file, indent=1)


def _turns() -> tuple[np.ndarray, np.ndarray]:
    """Seconds [turns, steps] without the callback and with it, those of the slowest rank."""
    network = NETWORKS[FLAGS.network]
    with adasum.AdasumStrategy().scope():
        model = network.make()
        model.compile(adasum.wrap(keras.optimizers.Adam(), FLAGS.mode), network.loss())
    logger = adasum.callbacks.OrthogonalityLogger()
    x, y = network.examples(FLAGS.batch * adasum.size())
    data = tf.data.Dataset.from_tensors((x, y)).repeat()
    seconds: dict[bool, list] = {False: [], True: []}
    for turn in range(FLAGS.turns + 1):  # the first traces and is not counted
        for measures in (False, True) if turn % 2 else (True, False):
            times = StepTimes()
            callbacks = [times, logger] if measures else [times]
            model.fit(
                data, steps_per_epoch=FLAGS.steps + 1, verbose=0, shuffle=False, callbacks=callbacks
            )
            of_ranks = MPI.COMM_WORLD.allgather(times.seconds[1:])
            seconds[measures] += [np.max(of_ranks, axis=0)] if turn else []
    return np.array(seconds[False]), np.array(seconds[True])


def _quartiles(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.percentile(values, [25, 50, 75])]


def _text(quartiles: list[float]) -> str:
    low, median, high = quartiles
    return f"{median:.3f} ({low:.3f} .. {high:.3f})"


if __name__ == "__main__":
    app.run(main)
