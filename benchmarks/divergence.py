"""Times the comparison of `AdasumStrategy(check_every=K)` beside a training step of ResNet-50.

    adasumrun -np 2 python -m benchmarks.divergence --batch=2

Steps and comparisons take turns, and a time is that of the slowest rank. Columns: parameters,
medians of a step and of a comparison in ms, and what part of K steps one comparison is, in percent.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import statistics

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.interleaved import interleave
from tf_adasum.distribute.divergence import DivergenceCheck

FLAGS = flags.FLAGS
flags.DEFINE_integer("batch", 2, "Examples of each rank's step; few are the hard case.", 1)
flags.DEFINE_integer("side", 224, "Height and width of an example.", 32)
flags.DEFINE_integer("every", 100, "K, the steps between two comparisons.", 1)
flags.DEFINE_integer("repetitions", 7, "Timed steps and comparisons.", 1)


def main(_) -> None:
    """Times both and prints a table on rank 0."""
    tf.get_logger().setLevel("ERROR")
    strategy = adasum.AdasumStrategy()
    shape = (FLAGS.side, FLAGS.side, 3)
    with strategy.scope():
        model = keras.applications.ResNet50(weights=None, input_shape=shape)
        model.compile(
            adasum.wrap(keras.optimizers.SGD(0.01)), keras.losses.SparseCategoricalCrossentropy()
        )
    images = np.random.default_rng(0).random((FLAGS.batch, *shape), "float32")
    labels = np.arange(FLAGS.batch)
    check = DivergenceCheck(adasum.world(), 1, strategy.extended.numbers)
    methods = {
        "step": lambda: model.train_on_batch(images, labels),
        "comparison": lambda: check.count_steps(model),
    }
    seconds = interleave(MPI.COMM_WORLD, methods, FLAGS.repetitions)
    step, comparison = (statistics.median(seconds[name]) for name in methods)
    if adasum.rank() == 0:
        percent = 100 * comparison / (FLAGS.every * step)
        row = [model.count_params(), step * 1e3, comparison * 1e3, percent]
        headers = ["parameters", "step ms", "comparison ms", f"% of {FLAGS.every} steps"]
        print(tabulate([row], headers, "github", floatfmt=".3f"), flush=True)


if __name__ == "__main__":
    app.run(main)
