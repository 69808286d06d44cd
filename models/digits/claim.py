"""Measures epochs to a target accuracy: workers x reductions x seeds, the learning rate untouched.

    python -m models.digits.claim --folder=/tmp/claim

One process; N workers are N leaves of the library's own reduction. In every step each worker takes
the gradient of its own batch, its own optimizer makes a step of it, `allreduce_replicas` combines
the steps, and all move to the same weights (mode="delta" of `wrap`). Each run leaves a JSON in
--folder, so that a second call only makes those that are missing. The target is 1.5 points less
than the best test accuracy of one worker (the median over the seeds of each run's best epoch).
"""

from __future__ import annotations

import json
import os

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags, logging
from tqdm import tqdm

from models.digits import claim_report, image_set, network, optimizers, settings
from models.digits.batches import ShiftedImages
from models.digits.results import without_nan
from tf_adasum.collectives.allreduce import allreduce_replicas

FLAGS = flags.FLAGS

flags.DEFINE_string("folder", None, "Where the runs' JSON files and the table go.", required=True)
flags.DEFINE_string("claim_plot", None, "PNG to draw; default: claim.png in --folder.")
flags.DEFINE_list("worker_counts", ["1", "8", "32"], "Numbers of workers.")
flags.DEFINE_list("reductions", ["adasum", "mean", "sum"], "Reductions to compare.")
flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=1)
flags.DEFINE_enum("optimizer", settings.OPTIMIZER, optimizers.NAMES, "The workers' optimizer.")
flags.DEFINE_float("rate", settings.LEARNING_RATE, "Learning rate of all runs.", lower_bound=0)
flags.DEFINE_integer("max_epochs", 40, "Epochs of each run.", lower_bound=1)
flags.DEFINE_integer("images", settings.BATCH_SIZE, "Images per worker and step.", lower_bound=1)


class Workers:
    """N workers in one process that train one model.

    Args:
        number: N.
        reduction: "adasum", "mean" or "sum".
        images: what the model is made for.
        examples: its training examples.
        seed: of the initial weights and the order of the examples.
    """

    def __init__(
        self,
        number: int,
        reduction: str,
        images: image_set.ImageSet,
        examples: ShiftedImages,
        seed: int,
    ):
        keras.utils.set_random_seed(seed)
        self.model = network.build(images.image_shape, images.num_classes)
        self._number, self._reduction, self._examples = number, reduction, examples
        self._order = np.random.default_rng(1000 + seed)
        self._variables = [variable.value for variable in self.model.trainable_variables]
        # Elementwise optimizers: one of them on weights stacked over the workers is N of them.
        self._stacked = [tf.Variable(tf.stack([variable] * number)) for variable in self._variables]
        self._optimizer = optimizers.make(FLAGS.optimizer, FLAGS.rate)
        self._optimizer.build(self._stacked)
        self._steps = tf.function(self._take_steps)

    def train_epoch(self) -> float:
        """Takes the steps of one epoch, without the odd rest; returns the mean loss."""
        together = self._number * FLAGS.images
        steps = len(self._examples) // together
        order = self._order.permutation(len(self._examples))[: steps * together]
        shape = (steps, self._number, FLAGS.images)
        return float(self._steps(tf.constant(order.reshape(shape).astype(np.int32))))

    def accuracy(self, test: ShiftedImages) -> float:
        """Share of the test examples that are told right."""
        images, labels = test.at(tf.range(len(test)))
        guesses = tf.argmax(self.model(images, training=False), axis=-1)
        return float(np.mean(guesses.numpy() == labels.numpy()))

    def _take_steps(self, order: tf.Tensor) -> tf.Tensor:
        total = tf.constant(0.0)
        for drawn in order:
            gradients, losses = tf.map_fn(
                self._gradients,
                drawn,
                fn_output_signature=([tf.float32] * len(self._variables), tf.float32),
            )
            self._optimizer.apply(gradients, self._stacked)
            self._combine()
            total += tf.reduce_mean(losses)
        return total / tf.cast(tf.shape(order)[0], tf.float32)

    def _combine(self) -> None:
        steps = [new - old for new, old in zip(self._stacked, self._variables)]
        by_worker = zip(*(tf.unstack(step, self._number) for step in steps))
        combined = allreduce_replicas(list(by_worker), self._reduction, name="claim")
        for variable, stacked, step in zip(self._variables, self._stacked, combined):
            stacked.assign(tf.broadcast_to(variable.assign_add(step), stacked.shape))

    def _gradients(self, drawn: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        images, labels = self._examples.at(drawn)
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        return tape.gradient(loss, self._variables), loss


def main(argv: list[str]) -> None:
    """Makes the missing runs, one worker first, then the table and the plot."""
    if len(argv) > 1:
        raise app.UsageError(f"expected flags only. Received: {' '.join(argv[1:])}")
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    tf.get_logger().setLevel("ERROR")  # every run traces its own step, on purpose
    os.makedirs(FLAGS.folder, exist_ok=True)
    images = image_set.load("digits")
    kinds = [
        (number, reduction, seed)
        for number in map(int, FLAGS.worker_counts)
        # One worker has nothing to reduce.
        for reduction in (FLAGS.reductions if number > 1 else ["none"])
        for seed in range(FLAGS.seeds)
    ]
    runs = [run(images, *kind) for kind in kinds]
    if any(run["workers"] == 1 for run in runs):
        text = claim_report.table(runs)
        print(text)
        with open(os.path.join(FLAGS.folder, "claim.md"), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        claim_report.plot(runs, FLAGS.claim_plot or os.path.join(FLAGS.folder, "claim.png"))


def run(images: image_set.ImageSet, number: int, reduction: str, seed: int) -> dict:
    """Returns a run from its file, or makes it and writes the file.

    Args:
        images: what to learn.
        number: number of workers.
        reduction: "adasum", "mean", "sum", or "none" for one worker.
        seed: of weights and order.
    """
    settings_of_run = {
        "workers": number,
        "reduction": reduction,
        "seed": seed,
        "optimizer": FLAGS.optimizer,
        "learning_rate": FLAGS.rate,
        "batch_size": FLAGS.images,
        "epochs": FLAGS.max_epochs,
    }
    name = "-".join(str(value) for value in settings_of_run.values()) + ".json"
    path = os.path.join(FLAGS.folder, name)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    examples = ShiftedImages(images.train, settings.SHIFT)
    test = ShiftedImages(images.test, settings.TEST_SHIFT, statistics=images.train)
    workers = Workers(number, "mean" if reduction == "none" else reduction, images, examples, seed)
    accuracies, losses = [], []
    for _ in tqdm(range(FLAGS.max_epochs), desc=f"{number} workers, {reduction}, seed {seed}"):
        losses.append(workers.train_epoch())
        accuracies.append(workers.accuracy(test))
    made = without_nan(settings_of_run | {"accuracies": accuracies, "losses": losses})
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(made, file)
    os.replace(path + ".part", path)
    return made


if __name__ == "__main__":
    app.run(main)
