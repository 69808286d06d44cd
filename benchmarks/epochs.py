"""Times an epoch of `fit` whose steps take no time: what the begin and the end of an epoch cost.

    python -m benchmarks.epochs --replicas=1 --replicas=2 --replicas=8

One process; the replicas are logical CPUs. Columns: median ms of an epoch of two steps of a small
network, without a strategy (with as many rows), under TensorFlow's MirroredStrategy and under
AdasumStrategy, in turns.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import json
import statistics
import time

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from tabulate import tabulate

import tf_adasum as adasum

FLAGS = flags.FLAGS
flags.DEFINE_multi_integer("replicas", [1, 2, 8], "Logical CPUs that train.", lower_bound=1)
flags.DEFINE_integer("epochs", 10, "Epochs of each call of fit.", lower_bound=1)
flags.DEFINE_integer("turns", 7, "Calls of fit that are timed, of each.", lower_bound=1)
flags.DEFINE_string("json", None, "Where to write all figures.")
_STEPS = 2
_ROWS = 4  # of each replica in a step


def main(_) -> None:
    """Measures all numbers of replicas, and shows the table."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * max(FLAGS.replicas),
    )
    figures = [_figures(number) for number in FLAGS.replicas]
    print(tabulate(figures, headers="keys", tablefmt="github", floatfmt=".3g"))
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump(figures, file, indent=1)


def _figures(number: int) -> dict:
    devices = [f"CPU:{i}" for i in range(number)]
    # Its collective operations take one number of replicas in the life of a process.
    to_one = tf.distribute.ReductionToOneDevice()
    models = {
        "no strategy": _model(tf.distribute.get_strategy()),
        "MirroredStrategy": _model(tf.distribute.MirroredStrategy(devices, to_one)),
        "AdasumStrategy": _model(adasum.AdasumStrategy(devices)),
    }
    rows = _STEPS * _ROWS * number
    data = np.zeros([rows, 4], np.float32), np.zeros([rows, 1], np.float32)
    fit = {"batch_size": _ROWS * number, "epochs": FLAGS.epochs, "verbose": 0}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(1 + FLAGS.turns):  # the first one traces
        for name, model in models.items():
            begin = time.perf_counter()
            model.fit(*data, **fit)
            if turn > 0:
                seconds[name].append((time.perf_counter() - begin) / FLAGS.epochs)
    medians = {name: 1e3 * statistics.median(taken) for name, taken in seconds.items()}
    ratio = medians["AdasumStrategy"] / medians["MirroredStrategy"]
    return {"replicas": number, **medians, "AdasumStrategy / MirroredStrategy": ratio}


def _model(strategy: tf.distribute.Strategy) -> keras.Model:
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01)
        is_ours = isinstance(strategy, adasum.AdasumStrategy)
        model.compile(adasum.wrap(optimizer) if is_ours else optimizer, "mse")
    return model


if __name__ == "__main__":
    app.run(main)
