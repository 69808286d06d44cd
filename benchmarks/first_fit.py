"""Times the first `fit` of a model, of one step: what a script waits for before it trains.

    adasumrun -np 2 python -m benchmarks.first_fit --optimizer=SGD

TensorFlow traces and optimizes the step then, which takes longer the more variables there are.
Plain Keras, in every rank at once, and Adasum take turns, each with a new model; the first turn is
not counted. Columns: median and range of the seconds of `fit` on the slowest rank, and the ratio to
plain Keras.
"""

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import time

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum

FLAGS = flags.FLAGS
flags.DEFINE_string("application", "ResNet50", "A class of keras.applications.")
flags.DEFINE_string("optimizer", "SGD", "A class of keras.optimizers.")
flags.DEFINE_integer("image_size", 32, "Pixels of a side of its images.", lower_bound=1)
flags.DEFINE_integer("batch", 8, "Examples of each rank's step.", lower_bound=1)
flags.DEFINE_integer("turns", 3, "How often each method has its turn.", lower_bound=1)

_PLAIN, _ADASUM = "plain Keras", "adasum"


def main(_) -> None:
    """Times both and prints a table on rank 0."""
    tf.get_logger().setLevel("ERROR")  # many models in one process look like retracing
    seconds: dict[str, list[float]] = {_PLAIN: [], _ADASUM: []}
    for turn in range(FLAGS.turns + 1):
        for method in seconds:
            own = _first_fit(with_adasum=method == _ADASUM)
            slowest = MPI.COMM_WORLD.allreduce(own, MPI.MAX)
            seconds[method] += [slowest] if turn else []
    if adasum.rank() == 0:
        _print_table(seconds)


def _first_fit(with_adasum: bool) -> float:
    """Seconds of one step of a new model, whose optimizer has no variables yet, as in a script."""
    keras.backend.clear_session()
    with adasum.AdasumStrategy().scope() if with_adasum else contextlib.nullcontext():
        model = getattr(keras.applications, FLAGS.application)(
            weights=None, classes=10, input_shape=(FLAGS.image_size, FLAGS.image_size, 3)
        )
        optimizer = keras.optimizers.get(FLAGS.optimizer)
        loss = keras.losses.SparseCategoricalCrossentropy()
        model.compile(adasum.wrap(optimizer) if with_adasum else optimizer, loss)
    number = FLAGS.batch * (adasum.size() if with_adasum else 1)
    images = np.random.default_rng(0).random((number, *model.input_shape[1:]), np.float32)
    MPI.COMM_WORLD.Barrier()
    begin = time.perf_counter()
    model.fit(images, np.arange(number) % 10, batch_size=number, verbose=0)
    return time.perf_counter() - begin


def _print_table(seconds: dict[str, list[float]]) -> None:
    plain = np.median(seconds[_PLAIN])
    rows = [
        (method, np.median(each), f"{min(each):.1f} .. {max(each):.1f}", np.median(each) / plain)
        for method, each in seconds.items()
    ]
    headers = ("first fit", "median s", "range s", "x plain")
    print(tabulate(rows, headers, "github", floatfmt=("", ".1f", "", ".2f")), flush=True)


if __name__ == "__main__":
    app.run(main)
