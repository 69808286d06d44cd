"""What trainings learn where late chunks are left out.

    bazel build //benchmarks:liblate_wire.so
    late_wire=$PWD/bazel-bin/benchmarks/liblate_wire.so
    adasumrun -np 4 env LD_PRELOAD=$late_wire python -m benchmarks.deadline_accuracy

Rows: all in one allreduce; chunks of which some are late, with a deadline and a bound each.
Columns: the median over seeds of the accuracy on test examples, the least and the largest, the
distance of the medians to that of the first row, and the mean share that was left out of a step.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sys

import keras
import numpy as np
from absl import app, flags

import tf_adasum
from benchmarks import trained
from benchmarks.late_wire import set_lateness

FLAGS = flags.FLAGS
flags.DEFINE_float("milliseconds", 8.0, "The deadline.")
flags.DEFINE_list("max_left_out", ["0.01", "0.1"], "Largest shares that are left out of a step.")
flags.DEFINE_list("late", ["0.02", "0.05"], "For each, the share of the chunks that are late.")
flags.DEFINE_float("by", 16.0, "By how many milliseconds.")
flags.DEFINE_list("units", ["512", "256"], "Of hidden layers; so that there are 160 chunks.")
flags.DEFINE_integer("seeds", 5, "Trainings of each row.", lower_bound=1)
flags.DEFINE_integer("epochs", 2, "Of a training.", lower_bound=1)
flags.DEFINE_integer("batch", 32, "Rows of a rank's step.", lower_bound=1)
flags.DEFINE_list("reductions", ["mean", "adasum"], "Of all variables.")
flags.DEFINE_list("rates", ["0.1", "0.025"], "For each, the rate of SGD with momentum 0.9.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")


def main(_) -> None:
    """Trains, and compares on rank 0."""
    ways = {"one allreduce": (None, 0.0)}
    for bound, late in zip(map(float, FLAGS.max_left_out), map(float, FLAGS.late), strict=True):
        sync = tf_adasum.sync.Deadline(FLAGS.milliseconds, bound)
        ways[f"{late:.0%} of chunks late, at most {bound:.0%} left out"] = (sync, late)
    found = []
    for reduction, rate in zip(FLAGS.reductions, map(float, FLAGS.rates), strict=True):
        of_all = None
        for name, (sync, late) in ways.items():
            set_lateness(late, FLAGS.by)
            each = [_train(reduction, rate, sync, seed) for seed in range(FLAGS.seeds)]
            accuracies, shares = zip(*each)
            middle = float(np.median(accuracies))
            of_all = middle if of_all is None else of_all
            found.append([reduction, name, accuracies, middle - of_all, float(np.mean(shares))])
            if tf_adasum.rank() == 0:
                print(f"{reduction}, {name}: {middle:.4f}", file=sys.stderr, flush=True)
    if tf_adasum.rank() == 0:
        trained.report(found, ["exchange", "left out"], FLAGS.json, 2)


def _train(reduction: str, rate: float, sync, seed: int) -> tuple[float, float]:
    """The accuracy, and the mean share that was left out."""
    strategy = tf_adasum.AdasumStrategy(reductions=[(".*", reduction)])

    def make_optimizer() -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(rate, momentum=0.9)

    units = [int(each) for each in FLAGS.units]
    accuracy, optimizer = trained.accuracy(
        strategy, make_optimizer, sync, seed, FLAGS.epochs, FLAGS.batch, units=units
    )
    return accuracy, optimizer.left_out.mean_share


if __name__ == "__main__":
    app.run(main)
