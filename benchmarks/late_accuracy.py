"""What trainings learn where nobody waits for late ranks, or ranks have unlike batches.

    adasumrun -np 4 python -m benchmarks.late_accuracy --json=late_accuracy.json

Each rank is late in some of its steps, drawn at random. Rows: all meet in every step; the same,
where rank r has r + 1 shares of each batch; groups, with no rank late, and with some. Columns: the
median over seeds of the accuracy on test examples, the least and the largest, the distance of the
medians to that of the first row, and the share of rank 0's steps that came late.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sys

import keras
import numpy as np
from absl import app, flags

import tf_adasum
from benchmarks import trained
from benchmarks.late import Late

FLAGS = flags.FLAGS
flags.DEFINE_float("often", 0.3, "Share of its steps in which a rank is late.")
flags.DEFINE_float("late", 20.0, "By how many milliseconds; a step takes about five.")
flags.DEFINE_integer("group_size", 2, "Ranks in a group.", lower_bound=2)
flags.DEFINE_integer("sync_every", 10, "Steps after which all meet.", lower_bound=2)
flags.DEFINE_integer("seeds", 5, "Trainings of each row.", lower_bound=1)
flags.DEFINE_integer("epochs", 2, "Of a training.", lower_bound=1)
flags.DEFINE_integer("batch", 32, "Rows of a rank's step.", lower_bound=1)
flags.DEFINE_list("reductions", ["mean", "adasum"], "Of all variables.")
flags.DEFINE_list("rates", ["0.1", "0.025"], "For each, the rate of SGD with momentum 0.9.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")


def main(_) -> None:
    """Trains, and compares on rank 0."""
    groups = tf_adasum.sync.GroupAveraging(FLAGS.group_size, FLAGS.sync_every)
    ways = {
        "all, each step": (None, None, 0.0),
        "all, unlike shares": ([rank + 1 for rank in range(tf_adasum.size())], None, 0.0),
        "groups": (None, groups, 0.0),
        f"groups, {FLAGS.often:.0%} late": (None, groups, FLAGS.often),
    }
    found = []
    for reduction, rate in zip(FLAGS.reductions, map(float, FLAGS.rates), strict=True):
        of_all = None
        for name, way in ways.items():
            each = [_train(reduction, rate, *way, seed) for seed in range(FLAGS.seeds)]
            accuracies, shares = zip(*each)
            middle = float(np.median(accuracies))
            of_all = middle if of_all is None else of_all
            found.append([reduction, name, accuracies, middle - of_all, float(np.mean(shares))])
            if tf_adasum.rank() == 0:
                print(f"{reduction}, {name}: {middle:.4f}", file=sys.stderr, flush=True)
    if tf_adasum.rank() == 0:
        trained.report(found, ["who meets", "late steps of rank 0"], FLAGS.json, 0)


def _train(
    reduction: str, rate: float, shares: list[int] | None, sync, often: float, seed: int
) -> tuple[float, float]:
    """The accuracy, and the share of this rank's steps that came late."""
    random = np.random.default_rng([seed, tf_adasum.rank()])
    late = random.random(1_000_000) < often
    layer = Late(lambda step, num_rows: FLAGS.late / 1000 * late[step])
    strategy = tf_adasum.AdasumStrategy(reductions=[(".*", reduction)], batch_share=shares)

    def make_optimizer() -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(rate, momentum=0.9)

    accuracy, optimizer = trained.accuracy(
        strategy, make_optimizer, sync, seed, FLAGS.epochs, FLAGS.batch, [layer]
    )
    return accuracy, optimizer.lateness.num_late / int(optimizer.iterations.numpy())


if __name__ == "__main__":
    app.run(main)
