"""Compares the step times that adasum.advise predicts with those of `fit` on as many ranks.

    .venv/bin/python -m benchmarks.advise --network=sleep --worlds=1-2,1-4,2-4,4-4
    .venv/bin/python -m benchmarks.advise --network=cnn --worlds=1-2,2-2,2-4

A world M-N: advise runs on M ranks and predicts N on one host with as many cores as this machine.
The ranks of "fit" know nothing of advise. "sleep" is a model of 4.2 M parameters whose train_step
sleeps for 100 ms beside its step, so that four ranks need not share what computes; the others are
those of benchmarks.step. A line per world: milliseconds of a step, and predicted / measured.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.networks import NETWORKS

FLAGS = flags.FLAGS
flags.DEFINE_enum("network", "sleep", ["sleep", *NETWORKS], "What is trained.")
flags.DEFINE_list("worlds", ["1-2", "1-4", "2-4", "4-4"], "Ranks of advise - ranks of fit.")
flags.DEFINE_integer("batch", 8, "Examples of each rank's step.")
flags.DEFINE_integer("steps", 20, "Steps of fit that are timed.")
flags.DEFINE_string("on_ranks", None, "What started ranks write to; for this program itself.")
flags.DEFINE_integer("predict", 0, "Ranks to predict, 0: fit is timed; likewise.")

_LIMIT_SECONDS = 200
_SLEEP_SECONDS = 0.1


def main(_) -> None:
    """Compares, or is one of the ranks."""
    if FLAGS.on_ranks:
        seconds = _predicted() if FLAGS.predict else _fitted()
        if adasum.rank() == 0:
            Path(FLAGS.on_ranks).write_text(json.dumps(seconds))
        return
    fitted: dict[int, float] = {}
    rows = []
    for world in FLAGS.worlds:
        here, there = map(int, world.split("-"))
        predicted = _run(here, there)
        if there not in fitted:
            fitted[there] = _run(there, 0)
        ratio = predicted / fitted[there]
        rows.append((FLAGS.network, here, there, 1e3 * fitted[there], 1e3 * predicted, ratio))
    headers = ["network", "advise on", "fit on", "measured ms", "predicted ms", "ratio"]
    print(tabulate(rows, headers, "pipe", floatfmt=("", "", "", ".1f", ".1f", ".2f")))


def _run(ranks: int, predict: int) -> float:
    """Starts this program on so many ranks; returns seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "seconds.json")
        program = [sys.executable, "-m", "benchmarks.advise", f"--network={FLAGS.network}"]
        program += [f"--batch={FLAGS.batch}", f"--steps={FLAGS.steps}"]
        program += [f"--on_ranks={path}", f"--predict={predict}"]
        launcher = [sys.executable, "-m", "adasumrun", f"--timeout={_LIMIT_SECONDS}"]
        subprocess.run([*launcher, "-np", str(ranks), *program], check=True)
        return json.loads(path.read_text())


def _predicted() -> float:
    model, data = _training()
    hosts = {"ranks": FLAGS.predict}
    advice = adasum.advise(model, data, ranks=[FLAGS.predict], hosts=hosts, budget_seconds=4)
    if adasum.rank() == 0:
        print(advice, flush=True)
    return advice.rows[0].step_seconds


def _fitted() -> float:
    """Seconds of a step in the second call of fit, which traces nothing."""
    model, data = _training()
    data = data.repeat()
    model.fit(data, steps_per_epoch=2, verbose=0, shuffle=False)
    clock = _Clock()
    model.fit(
        data, steps_per_epoch=FLAGS.steps, epochs=2, verbose=0, shuffle=False, callbacks=[clock]
    )
    return clock.seconds / FLAGS.steps


class _Clock(keras.callbacks.Callback):
    """Times the second epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the clock."""
        self._begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        """Stops it."""
        self.seconds = time.perf_counter() - self._begin


def _training() -> tuple[keras.Model, tf.data.Dataset]:
    strategy = adasum.AdasumStrategy()
    number = FLAGS.batch * strategy.num_replicas_in_sync
    with strategy.scope():
        if FLAGS.network == "sleep":
            random = np.random.default_rng(0)
            x, y = random.standard_normal((4 * number, 1024), np.float32), np.ones((4 * number, 1))
            model, loss = _Sleeping(), "mse"
        else:
            network = NETWORKS[FLAGS.network]
            x, y = network.examples(4 * number)
            model, loss = network.make(), network.loss()
        model.compile(adasum.wrap(keras.optimizers.SGD(1e-4)), loss)
    return model, tf.data.Dataset.from_tensor_slices((x, y)).batch(number)


class _Sleeping(keras.Model):
    """Four dense layers, and a step that takes no core for most of its time."""

    def __init__(self):
        super().__init__(name="sleeping")
        self._layers_in_turn = [keras.layers.Dense(1024, "relu") for _ in range(4)]
        self._last = keras.layers.Dense(1)

    def call(self, inputs):
        """Applies them."""
        for layer in self._layers_in_turn:
            inputs = layer(inputs)
        return self._last(inputs)

    def train_step(self, data):
        """As Keras', after a sleep."""
        with tf.control_dependencies([tf.py_function(_sleep, [], [])]):
            return super().train_step(tf.nest.map_structure(tf.identity, data))


def _sleep() -> None:
    time.sleep(_SLEEP_SECONDS)


if __name__ == "__main__":
    app.run(main)
