"""Trains the digits network with Keras `fit`, on the ranks of adasumrun or in one process.

    adasumrun -np 4 python -m models.digits.train --reduction=adasum
    adasumrun -np 4 python -m models.digits.train --workers=32    # 8 replicas on each rank
    python -m models.digits.train --workers=8

With several reductions, such as --reduction=mean,sum,adasum, it trains once with each. "none" among
them is one worker alone, which sets a target; the others are then compared by the epochs to it.
"""

from __future__ import annotations

import json
import time

import keras
import tensorflow as tf
from absl import flags

import tf_adasum
from models.common import datasets, outputs, program, workers
from models.digits import claim_report, image_set, network, optimizers, results, settings
from models.digits.batches import ShiftedImages
from models.digits.callbacks import Curve, EpochBar
from models.digits.evaluation import Evaluation
from models.digits.orthogonality import GradientOrthogonality

FLAGS = flags.FLAGS
ONE_WORKER = "none"

flags.adopt_module_key_flags(datasets)  # for --help
flags.adopt_module_key_flags(workers)
flags.DEFINE_string("dataset", "digits", "digits, or an image set of tensorflow_datasets (mnist).")
flags.DEFINE_list("reduction", ["adasum"], "How replicas are combined: adasum, mean, sum; or none.")
flags.DEFINE_enum("optimizer", settings.OPTIMIZER, optimizers.NAMES, "The workers' optimizer.")
flags.DEFINE_float("learning_rate", settings.LEARNING_RATE, "Of the optimizer.", lower_bound=0)
flags.DEFINE_integer("batch_size", settings.BATCH_SIZE, "Images per worker.", lower_bound=1)
flags.DEFINE_integer("epochs", settings.EPOCHS, "Passes over the training images.", lower_bound=1)
flags.DEFINE_integer("shift", settings.SHIFT, "Augmentation: largest shift, pixels.", lower_bound=0)
flags.DEFINE_integer("test_shift", 0, "The same for the test images.", lower_bound=0)
flags.DEFINE_integer(
    "measure_every",
    None,
    "Steps between measurements; default: 4 an epoch, 1 without --orthogonality.",
    lower_bound=1,
)
flags.DEFINE_bool("orthogonality", True, "Measure the orthogonality of the workers' gradients.")
flags.DEFINE_enum(
    "progress", "steps", ["steps", "epochs", "none"], "A bar for each epoch, one for all, or none."
)
flags.DEFINE_string("json", None, "File to write the results to.")
flags.DEFINE_string("plot", None, "PNG file to draw the accuracy in, and the orthogonality.")
outputs.check("json", "plot")

flags.register_validator(
    "reduction",
    lambda names: bool(names) and set(names) <= {"adasum", "mean", "sum", ONE_WORKER},
    message="expected adasum, mean, sum or none, or several with commas between.",
)


def main() -> None:
    """Trains once with each of --reduction and shows a table."""
    devices = workers.local_devices()
    images = image_set.load(FLAGS.dataset, FLAGS.data_dir)
    runs = [train(images, *kind) for kind in _kinds(devices)]
    if tf_adasum.rank() > 0:
        return
    # One worker sets the target by which the report of the claim compares more, if there are any.
    report = claim_report if len({run["workers"] for run in runs}) > 1 else results
    print(report.table(runs))
    if FLAGS.json:
        with open(FLAGS.json, "w", encoding="utf-8") as file:
            json.dump(results.without_nan(runs), file, indent=1)
    if FLAGS.plot:
        report.plot(runs, FLAGS.plot)
        print(f"Plot: {FLAGS.plot}")


Kind = tuple[str, list[str] | None, tf_adasum.Communicator]


def _kinds(devices: list[str] | None) -> list[Kind]:
    """The reduction, devices and ranks of each training that this rank takes part in."""
    world = tf_adasum.world()
    kinds: list[Kind] = []
    for reduction in FLAGS.reduction:
        if reduction != ONE_WORKER:
            kinds.append((reduction, devices, world))
            continue
        alone = world.split(color=0 if world.rank == 0 else None)
        if alone is not None:  # the other ranks go on, and wait for rank 0 at the next training
            gpus = tf.config.list_logical_devices("GPU") if devices is None else []
            kinds.append((reduction, [gpus[0].name if gpus else "CPU:0"], alone))
    return kinds


def train(
    images: image_set.ImageSet,
    reduction: str,
    devices: list[str] | None,
    communicator: tf_adasum.Communicator,
) -> dict:
    """Trains a new model with one reduction for all variables.

    Args:
        images: what to learn.
        reduction: "adasum", "mean" or "sum", or "none" where there is one replica only.
        devices: this process's replicas, as for `AdasumStrategy`.
        communicator: the ranks that train together.

    Returns:
        What the reports show.

    Raises:
        DatasetError: there are fewer images than one step takes.
    """
    keras.utils.set_random_seed(FLAGS.seed)
    rules = [] if reduction == ONE_WORKER else [(".*", reduction)]
    strategy = tf_adasum.AdasumStrategy(devices, rules, communicator)
    examples = ShiftedImages(images.train, FLAGS.shift)
    test = ShiftedImages(images.test, FLAGS.test_shift, statistics=images.train)
    together = FLAGS.batch_size * strategy.num_replicas_in_sync
    if together > len(examples):
        raise datasets.DatasetError(
            f"expected images for one step of all workers, {together}. Received: {len(examples)}. "
            "Set a smaller --batch_size, or fewer workers."
        )
    batches = examples.shuffled(together)
    every = FLAGS.measure_every or max(1, len(batches) // (4 if FLAGS.orthogonality else 1))
    # Where nobody looks at single steps, TensorFlow takes those of an epoch by itself.
    at_once = every if every == len(batches) and FLAGS.progress != "steps" else 1
    model = _compiled_model(images, strategy, at_once)
    curve = _curve(strategy, model, examples, test, every)
    _announce(reduction, strategy, len(batches))
    shows = FLAGS.progress if tf_adasum.rank() == 0 else "none"
    start = time.monotonic()
    model.fit(
        # One endless pipeline: starting it anew for every epoch would take longer than an epoch.
        batches.repeat(),
        steps_per_epoch=len(batches),
        epochs=FLAGS.epochs,
        callbacks=[curve, *([EpochBar(reduction, FLAGS.epochs)] if shows == "epochs" else [])],
        shuffle=False,  # the batches are shuffled already
        verbose=int(shows == "steps"),
    )
    return {
        "reduction": reduction,
        "workers": strategy.num_replicas_in_sync,
        "optimizer": FLAGS.optimizer,
        "learning_rate": FLAGS.learning_rate,
        "epochs": FLAGS.epochs,
        "seed": FLAGS.seed,
        "accuracy": curve.points[-1]["accuracy"],
        "loss": curve.points[-1]["loss"],
        "seconds": time.monotonic() - start,
        "accuracies": curve.accuracies,
        "curve": curve.points,
    }


def _compiled_model(
    images: image_set.ImageSet, strategy: tf_adasum.AdasumStrategy, steps_per_execution: int
) -> keras.Model:
    with strategy.scope():
        model = network.build(images.image_shape, images.num_classes)
        optimizer = optimizers.make(FLAGS.optimizer, FLAGS.learning_rate)
        model.compile(
            optimizer=tf_adasum.wrap(optimizer, mode=FLAGS.mode),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps_per_execution,
        )
    return model


def _curve(
    strategy: tf_adasum.AdasumStrategy,
    model: keras.Model,
    examples: ShiftedImages,
    test: ShiftedImages,
    every: int,
) -> Curve:
    """The measurements of a training."""
    measure = None
    if FLAGS.orthogonality:
        measure = GradientOrthogonality(strategy, model, examples, FLAGS.batch_size)
    return Curve(Evaluation(model, test, strategy.extended.communicator), every, measure)


def _announce(reduction: str, strategy: tf_adasum.AdasumStrategy, steps: int) -> None:
    """Says on rank 0 what is about to be trained."""
    if tf_adasum.rank() > 0:
        return
    title = "" if reduction == ONE_WORKER else f"{reduction}: "
    print(
        f"{title}{workers.describe(strategy)} x {FLAGS.batch_size} images, "
        f"{FLAGS.optimizer} {FLAGS.learning_rate:g}, {FLAGS.epochs} epochs of {steps} steps",
        flush=True,
    )


if __name__ == "__main__":
    program.run(main)
