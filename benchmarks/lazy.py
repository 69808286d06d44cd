"""What CADA learns, and how little its ranks upload, beside AMSGrad.

    adasumrun -np 4 python -m benchmarks.lazy --json=lazy.json

Rows: CADA where all ranks upload in each step, which is AMSGrad, and CADA by both rules. Columns:
the median over seeds of the loss on the training examples, the least and the largest; its ratio to
that of AMSGrad, the median over seeds; accuracy on test examples; the share of uploads that ranks
skipped; and the bytes that all ranks sent, as a share of those of AMSGrad.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from tabulate import tabulate

import tf_adasum
from experiments import tasks

FLAGS = flags.FLAGS
flags.DEFINE_float("rate", 5e-4, "Learning rate.")
flags.DEFINE_list("rule1", ["10", "100"], "Thresholds c of rule 1.")
flags.DEFINE_list("rule2", ["0.3", "1", "3"], "Thresholds c of rule 2.")
flags.DEFINE_integer("most_steps", 20, "D.", lower_bound=1)
flags.DEFINE_integer("seeds", 5, "Trainings of each row.", lower_bound=1)
flags.DEFINE_integer("epochs", 2, "Of a training.", lower_bound=1)
flags.DEFINE_integer("batch", 32, "Rows of a rank's step.", lower_bound=1)
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
# So small that every step says something new.
_ALWAYS = 1e-30


def main(_) -> None:
    """Trains, and compares on rank 0."""
    ways = {"AMSGrad": (2, _ALWAYS)}
    ways |= {f"rule 1, c = {c}": (1, float(c)) for c in FLAGS.rule1}
    ways |= {f"rule 2, c = {c}": (2, float(c)) for c in FLAGS.rule2}
    found = {}
    for name, (rule, threshold) in ways.items():
        found[name] = [_train(rule, threshold, seed) for seed in range(FLAGS.seeds)]
        if tf_adasum.rank() == 0:
            print(name, *found[name], file=sys.stderr, flush=True)
    if tf_adasum.rank() == 0:
        _report(found)


def _train(rule: int, threshold: float, seed: int) -> tuple[float, float, float, float]:
    """The loss, the accuracy, the share of skipped uploads of all ranks, and vectors a step."""
    task = tasks.generated()
    with tf_adasum.AdasumStrategy().scope():
        keras.utils.set_random_seed(seed)
        model = task.build()
        optimizer = tf_adasum.optimizers.CADA(
            FLAGS.rate, rule=rule, threshold=threshold, most_steps=FLAGS.most_steps
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss)
    batch = FLAGS.batch * tf_adasum.size()
    data = tf.data.Dataset.from_tensor_slices((task.train.inputs, task.train.labels))
    data = data.shuffle(len(task.train.labels), seed=seed).batch(batch, drop_remainder=True)
    model.fit(data, epochs=FLAGS.epochs, verbose=0)
    counts = optimizer.uploads
    skipped = np.array([1 - counts.num_uploads / counts.num_steps])
    tf_adasum.allreduce_arrays([skipped], "mean", name="share of skipped uploads")
    final = float(task.loss(task.train.labels, model(task.train.inputs)).numpy())
    is_right = model(task.test.inputs).numpy().argmax(axis=1) == task.test.labels
    return final, float(np.mean(is_right)), float(skipped[0]), counts.num_vectors / counts.num_steps


def _report(found) -> None:
    base = np.array(found["AMSGrad"])
    rows = []
    for name, each in found.items():
        losses, accuracies, skipped, vectors = np.array(each).T
        ratio = np.median(losses / base[:, 0])
        loss = f"{np.median(losses):.4f} ({losses.min():.4f} to {losses.max():.4f})"
        share = f"{np.mean(vectors) / np.mean(base[:, 3]):.0%}"
        accuracy = f"{np.median(accuracies):.2%}"
        rows.append([name, loss, f"{ratio:.3f}", accuracy, f"{np.mean(skipped):.0%}", share])
    header = ["optimizer", "loss", "ratio", "accuracy", "skipped uploads", "bytes"]
    print(tabulate(rows, header, tablefmt="github", disable_numparse=True), flush=True)
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    app.run(main)
