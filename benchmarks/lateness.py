"""Times steps of `fit` where in each step one rank, drawn at random, is late.

    adasumrun -np 4 python -m benchmarks.lateness --json=lateness.json

A layer sleeps in each step, and longer on the rank that is late, so that ranks need no core for
what they compute. Each row is a way to meet; trainings take turns. Columns: median and quartiles of
the steps that a rank takes in a second, over the turns; the ratio to steps in which all meet; what
was to be had, by arithmetic, if nothing else took time; how many of rank 0's steps came late, and
by how many rounds of groups at most.
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

FLAGS = flags.FLAGS
flags.DEFINE_float("milliseconds", 50.0, "How long each rank computes in a step.")
flags.DEFINE_float("late", 200.0, "By how many more the late rank comes late.")
flags.DEFINE_float("often", 1.0, "Share of the steps in which a rank is late.")
flags.DEFINE_integer("group_size", 2, "Ranks in a group.", lower_bound=2)
flags.DEFINE_list("sync_every", ["10", "20", "40"], "Steps after which all meet.")
flags.DEFINE_integer("steps", 80, "Steps of a turn.", lower_bound=2)
flags.DEFINE_integer("turns", 5, "Turns that are timed.", lower_bound=1)
flags.DEFINE_integer("units", 64, "Of each of the model's two hidden layers.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
_ROWS = 4
_FEATURES = 16


def lateness(number: int) -> np.ndarray:
    """Returns the rank that is late in each of so many steps, the same on all ranks; -1: none."""
    random = np.random.default_rng(0)
    ranks = random.integers(0, tf_adasum.size(), number)
    return np.where(random.random(number) < FLAGS.often, ranks, -1)


def main(_) -> None:
    """Trains in turns, and compares on rank 0."""
    syncs = {"all": None}
    for steps in map(int, FLAGS.sync_every):
        syncs[f"groups, all every {steps}"] = tf_adasum.sync.GroupAveraging(FLAGS.group_size, steps)
    models = {name: _model(sync) for name, sync in syncs.items()}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(FLAGS.turns + 1):
        for name, model in models.items():
            seconds = _seconds(model)
            if turn > 0:  # the first compiles
                rates[name].append(FLAGS.steps / seconds)
    if tf_adasum.rank() == 0:
        _report(models, syncs, rates)


def _model(sync) -> keras.Model:
    late = lateness(100_000)

    def seconds(step: int, num_rows: int) -> float:
        del num_rows
        is_late = late[step] == tf_adasum.rank()
        return (FLAGS.milliseconds + (FLAGS.late if is_late else 0.0)) / 1000

    with tf_adasum.AdasumStrategy().scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((_FEATURES,)),
                Late(seconds),
                keras.layers.Dense(FLAGS.units, activation="relu"),
                keras.layers.Dense(FLAGS.units, activation="relu"),
                keras.layers.Dense(1),
            ]
        )
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01), sync=sync), "mse")
    return model


def _seconds(model: keras.Model) -> float:
    batch = _ROWS * tf_adasum.size()
    x = np.random.default_rng(2).normal(size=(FLAGS.steps * batch, _FEATURES)).astype(np.float32)
    tf_adasum.barrier(name="before a turn")
    begin = time.perf_counter()
    model.fit(x, x[:, :1], batch_size=batch, verbose=0)
    return time.perf_counter() - begin


def _ideal(sync) -> float:
    """Steps in a second where only sleep and the waits for others take time."""
    late = lateness(FLAGS.steps * (FLAGS.turns + 1))
    each = FLAGS.milliseconds + FLAGS.late * (late == np.arange(tf_adasum.size())[:, None])
    periods = 1 if sync is None else sync.sync_every
    begins = [
        begin
        for turn in range(1, FLAGS.turns + 1)
        for begin in range(turn * FLAGS.steps, (turn + 1) * FLAGS.steps, periods)
    ]
    ends = [min(begin + periods, (begin // FLAGS.steps + 1) * FLAGS.steps) for begin in begins]
    total = sum(each[:, begin:end].sum(axis=1).max() for begin, end in zip(begins, ends))
    return 1000 * FLAGS.steps * FLAGS.turns / total


def _report(models, syncs, rates) -> None:
    base = np.median(rates["all"])
    rows, ideal = [], {name: _ideal(sync) for name, sync in syncs.items()}
    for name, model in models.items():
        low, middle, high = np.quantile(rates[name], [0.25, 0.5, 0.75])
        late, behind = model.optimizer.lateness
        rate = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        ratios = f"{middle / base:.2f}", f"{ideal[name] / ideal['all']:.2f}"
        rows.append([name, rate, *ratios, late, behind])
    header = ["who meets", "steps a second", "ratio", "ideal", "late steps of rank 0", "behind"]
    print(tabulate(rows, header, tablefmt="github", disable_numparse=True), flush=True)
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump({"rates": rates, "ideal": ideal}, file)


if __name__ == "__main__":
    app.run(main)
