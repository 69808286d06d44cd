"""Trains the generated task, as benchmarks compare ways to do so."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf
from tabulate import tabulate

import tf_adasum
from experiments import tasks


def accuracy(  # noqa: PLR0913, PLR0917 (what benchmarks vary)
    strategy: tf_adasum.AdasumStrategy,
    make_optimizer: Callable[[], keras.optimizers.Optimizer],
    sync: tf_adasum.sync.Sync | None,
    seed: int,
    epochs: int,
    batch: int,
    first_layers: Sequence[keras.layers.Layer] = (),
    units: Sequence[int] | None = None,
) -> tuple[float, keras.optimizers.Optimizer]:
    """Returns the accuracy on test examples of a training, and its optimizer.

    Args:
        strategy: of all ranks.
        make_optimizer: makes a plain one, which is wrapped.
        sync: of `wrap`.
        seed: of weights and data.
        epochs: of 60,000 examples.
        batch: rows of a rank's step.
        first_layers: before the network, in training alone.
        units: of hidden layers; None for the task's network.
    """
    task = tasks.generated()
    with strategy.scope():
        keras.utils.set_random_seed(seed)
        network = task.build() if units is None else _network(units, task)
        model = keras.Sequential([keras.Input(task.train.inputs.shape[1:]), *first_layers, network])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_adasum.wrap(make_optimizer(), sync=sync), loss)
    rows = batch * tf_adasum.size()
    data = tf.data.Dataset.from_tensor_slices((task.train.inputs, task.train.labels))
    data = data.shuffle(len(task.train.labels), seed=seed).batch(rows, drop_remainder=True)
    model.fit(data, epochs=epochs, verbose=0)
    logits = network(task.test.inputs).numpy()
    return float(np.mean(logits.argmax(axis=1) == task.test.labels)), model.optimizer


def _network(units: Sequence[int], task) -> keras.Model:
    hidden = [keras.layers.Dense(each, activation="relu") for each in units]
    num_classes = int(task.train.labels.max()) + 1
    inputs = keras.Input(task.train.inputs.shape[1:])
    return keras.Sequential([inputs, *hidden, keras.layers.Dense(num_classes)])


def report(found: list, header: list[str], path: str | None, digits: int) -> None:
    """Prints a table of trainings, and writes all figures to a file.

    Args:
        found: of each row the reduction, the way, the accuracies, the distance of their median to
            that of the first row, and a share.
        header: of the columns of ways and shares.
        path: of the file; None for none.
        digits: of the share in percent.
    """
    rows = [
        [
            reduction,
            name,
            f"{np.median(accuracies):.2%} ({min(accuracies):.2%} to {max(accuracies):.2%})",
            f"{100 * distance:+.2f}",
            f"{share:.{digits}%}",
        ]
        for reduction, name, accuracies, distance, share in found
    ]
    columns = ["reduction", header[0], "accuracy", "points", header[1]]
    print(tabulate(rows, columns, tablefmt="github", disable_numparse=True), flush=True)
    if path:
        with open(path, "w") as file:
            json.dump(found, file)
