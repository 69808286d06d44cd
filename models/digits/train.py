"""Trains the digits network with Keras `fit`, on the ranks of adasumrun or in one process.

    adasumrun -np 4 python -m models.digits.train --reduction=adasum
    python -m models.digits.train --workers=8

With several reductions, such as --reduction=mean,sum,adasum, it trains once with each.
"""

from __future__ import annotations

import json
import sys
import time

import keras
import tensorflow as tf
from absl import app, flags, logging

import tf_adasum
from models.digits import image_set, network, optimizers, results, settings
from models.digits.batches import ShiftedImages
from models.digits.orthogonality import Curve

FLAGS = flags.FLAGS

flags.DEFINE_string("dataset", "digits", "digits, or an image set of tensorflow_datasets (mnist).")
flags.DEFINE_string("data_dir", image_set.DEFAULT_FOLDER, "Folder of prepared data sets.")
flags.DEFINE_list("reduction", ["adasum"], "How replicas are combined: adasum, mean, sum.")
flags.DEFINE_enum("mode", "delta", ["delta", "gradient"], "What is combined: see tf_adasum.wrap.")
flags.DEFINE_enum("optimizer", settings.OPTIMIZER, optimizers.NAMES, "The workers' optimizer.")
flags.DEFINE_float("learning_rate", settings.LEARNING_RATE, "Of the optimizer.", lower_bound=0)
flags.DEFINE_integer("batch_size", settings.BATCH_SIZE, "Images per worker.", lower_bound=1)
flags.DEFINE_integer("epochs", settings.EPOCHS, "Passes over the training images.", lower_bound=1)
flags.DEFINE_integer("shift", settings.SHIFT, "Augmentation: largest shift, pixels.", lower_bound=0)
flags.DEFINE_integer(
    "workers", None, "Replicas; in one process as many CPU devices. Default: ranks.", lower_bound=1
)
flags.DEFINE_integer("seed", 0, "Of initial weights and of the order of the images.")
flags.DEFINE_integer(
    "measure_every", None, "Steps between measurements; default: 4 an epoch.", lower_bound=1
)
flags.DEFINE_string("json", None, "File to write the results to.")
flags.DEFINE_string("plot", None, "PNG file to draw accuracy and orthogonality in.")

flags.register_validator(
    "reduction",
    lambda names: bool(names) and set(names) <= {"adasum", "mean", "sum"},
    message="expected adasum, mean or sum, or several with commas between.",
)


def main(argv: list[str]) -> None:
    """Trains once with each of --reduction and shows a table."""
    if len(argv) > 1:
        raise app.UsageError(f"expected flags only. Received: {' '.join(argv[1:])}")
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # tensorflow_datasets tells every step
    devices = _local_devices()
    images = image_set.load(FLAGS.dataset, FLAGS.data_dir)
    runs = [train(images, reduction, devices) for reduction in FLAGS.reduction]
    if tf_adasum.rank() > 0:
        return
    print(results.table(runs))
    if FLAGS.json:
        with open(FLAGS.json, "w", encoding="utf-8") as file:
            json.dump(results.without_nan(runs), file, indent=1)
    if FLAGS.plot:
        results.plot(runs, FLAGS.plot)
        print(f"Plot: {FLAGS.plot}")


def train(images: image_set.ImageSet, reduction: str, devices: list[str] | None) -> dict:
    """Trains a new model with one reduction for all variables.

    Args:
        images: what to learn.
        reduction: "adasum", "mean" or "sum".
        devices: this process's replicas, as for `AdasumStrategy`.

    Returns:
        What `results.table` shows, and the curve.
    """
    keras.utils.set_random_seed(FLAGS.seed)
    strategy = tf_adasum.AdasumStrategy(devices, reductions=[(".*", reduction)])
    with strategy.scope():
        model = network.build(images.image_shape, images.num_classes)
        optimizer = optimizers.make(FLAGS.optimizer, FLAGS.learning_rate)
        model.compile(
            optimizer=tf_adasum.wrap(optimizer, mode=FLAGS.mode),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    workers = strategy.num_replicas_in_sync
    examples = ShiftedImages(images.train, FLAGS.shift)
    test = ShiftedImages(images.test, statistics=images.train)
    batches = examples.shuffled(FLAGS.batch_size * workers)
    every = FLAGS.measure_every or max(1, len(batches) // 4)
    curve = Curve(strategy, examples, test, FLAGS.batch_size, every)
    speaks = int(tf_adasum.rank() == 0)
    if speaks:
        print(
            f"{reduction}: {workers} workers x {FLAGS.batch_size} images, "
            f"{FLAGS.optimizer} {FLAGS.learning_rate:g}, {len(examples)} training and "
            f"{len(test)} test images"
        )
    start = time.monotonic()
    model.fit(
        # One endless pipeline: starting it anew for every epoch would take longer than an epoch.
        batches.repeat(),
        steps_per_epoch=len(batches),
        epochs=FLAGS.epochs,
        callbacks=[curve],
        shuffle=False,  # the batches are shuffled already
        verbose=speaks,
    )
    seconds = time.monotonic() - start
    loss, accuracy = _evaluate(model, test)
    return {
        "reduction": reduction,
        "workers": workers,
        "optimizer": FLAGS.optimizer,
        "learning_rate": FLAGS.learning_rate,
        "epochs": FLAGS.epochs,
        "seed": FLAGS.seed,
        "accuracy": accuracy,
        "loss": loss,
        "seconds": seconds,
        "curve": curve.points,
    }


def _evaluate(model: keras.Model, test: ShiftedImages) -> tuple[float, float]:
    """Loss and accuracy on all test images, the same on every rank.

    Not by `model.evaluate`: of 32 local replicas the last get no image of 360, and TensorFlow's
    convolutions on the CPU return empty batches of a wrong shape (docs/guarantees.md).
    """
    images, labels = test.at(tf.range(len(test)))
    logits = model(images, training=False)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    right = tf.argmax(logits, axis=-1) == labels
    return float(tf.reduce_mean(losses)), float(tf.reduce_mean(tf.cast(right, tf.float32)))


def _local_devices() -> list[str] | None:
    """The devices of this process's replicas; before anything starts TensorFlow's runtime."""
    workers = FLAGS.workers
    if workers is None:
        return None
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * workers
    )
    ranks = tf_adasum.size()
    if ranks > 1 and ranks != workers:
        raise app.UsageError(
            "expected --workers to be the number of ranks, or to be left out. "
            f"Received: --workers={workers} on {ranks} ranks."
        )
    return ["CPU:0"] if ranks > 1 else [f"CPU:{index}" for index in range(workers)]


def run() -> None:
    """Runs `main`; a data set that is not to be had ends it with one line."""
    try:
        app.run(main)
    except image_set.ImageSetError as error:
        sys.exit(f"rank {tf_adasum.rank()}: {error}")


if __name__ == "__main__":
    run()
