"""Times steps of `fit` where some chunks are late on the wire.

    bazel build //benchmarks:liblate_wire.so
    late_wire=$PWD/bazel-bin/benchmarks/liblate_wire.so
    adasumrun -np 4 env LD_PRELOAD=$late_wire python -m benchmarks.deadline

The preloaded library lets chunks be late, each by one of its messages. A layer sleeps in each step,
so that ranks need no core for what they compute. Rows, which take turns: all in one allreduce, of
which nothing is late, as it has no chunks; chunks, of which none are late; and some, where all are
waited for, and with deadlines. Columns: median and 99th percentile of the steps of rank 0, the
latter beside that of the row in which all are waited for, and the mean and the largest share that
was left out of a step.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import time

import keras
import numpy as np
from absl import app, flags
from tabulate import tabulate

import tf_adasum
from benchmarks.late import Late
from benchmarks.late_wire import set_lateness

FLAGS = flags.FLAGS
flags.DEFINE_float("compute", 50.0, "How many milliseconds each rank computes in a step.")
flags.DEFINE_list("milliseconds", ["50", "20"], "Deadlines.")
flags.DEFINE_float("late", 0.05, "Share of the chunks that are late.")
flags.DEFINE_float("by", 100.0, "By how many milliseconds.")
flags.DEFINE_float("max_left_out", 0.1, "The largest share that is left out of a step.")
flags.DEFINE_integer("steps", 100, "Steps of a turn.", lower_bound=2)
flags.DEFINE_integer("turns", 4, "Turns that are timed.", lower_bound=1)
flags.DEFINE_integer("units", 700, "Of each of the model's two hidden layers.")
flags.DEFINE_string("mode", "delta", "What is exchanged: delta or gradient.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
_ROWS = 4
_FEATURES = 16
_NONE = "chunks, none late"
_WAITS = "chunks, all waited for"


class Times(keras.callbacks.Callback):
    """How many milliseconds each step takes."""

    stops_nothing = True

    def __init__(self):
        super().__init__()
        self.milliseconds: list[float] = []

    def on_train_batch_begin(self, batch, logs=None):
        """Begins to count."""
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Counts."""
        self.milliseconds.append(1000 * (time.perf_counter() - self._begin))


def main(_) -> None:
    """Trains in turns, and compares on rank 0."""
    waiting = tf_adasum.sync.Deadline(1e6, 0.0)
    syncs = {"one allreduce": None, _NONE: waiting, _WAITS: waiting}
    for milliseconds in map(float, FLAGS.milliseconds):
        sync = tf_adasum.sync.Deadline(milliseconds, FLAGS.max_left_out)
        syncs[f"{milliseconds:g} ms, at most {FLAGS.max_left_out:.0%}"] = sync
    models = {name: _model(sync) for name, sync in syncs.items()}
    found: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(FLAGS.turns + 1):
        for name, model in models.items():
            set_lateness(0.0 if name == _NONE else FLAGS.late, FLAGS.by)
            times = _times(model)
            if turn > 0:  # the first compiles
                found[name] += times[1:]
    if tf_adasum.rank() == 0:
        _report(models, found)


def _model(sync) -> keras.Model:
    with tf_adasum.AdasumStrategy().scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((_FEATURES,)),
                Late(lambda step, num_rows: FLAGS.compute / 1000),
                keras.layers.Dense(FLAGS.units, activation="relu"),
                keras.layers.Dense(FLAGS.units, activation="relu"),
                keras.layers.Dense(1),
            ]
        )
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01), FLAGS.mode, sync=sync), "mse")
    return model


def _times(model: keras.Model) -> list[float]:
    batch = _ROWS * tf_adasum.size()
    x = np.random.default_rng(2).normal(size=(FLAGS.steps * batch, _FEATURES)).astype(np.float32)
    tf_adasum.barrier(name="before a turn")
    times = Times()
    model.fit(x, x[:, :1], batch_size=batch, verbose=0, callbacks=[times])
    return times.milliseconds


def _report(models, found) -> None:
    of_all = np.quantile(found[_WAITS], 0.99)
    rows = []
    for name, model in models.items():
        middle, last = np.quantile(found[name], [0.5, 0.99])
        left_out = model.optimizer.left_out
        shares = f"{left_out.mean_share:.2%}", f"{left_out.most_share:.2%}"
        rows.append([name, f"{middle:.0f}", f"{last:.0f}", f"{of_all / last:.2f}", *shares])
    header = ["exchange", "median (ms)", "99 % (ms)", "times as short", "left out", "at most"]
    print(tabulate(rows, header, tablefmt="github", disable_numparse=True), flush=True)
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    app.run(main)
