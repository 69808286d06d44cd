"""Ways to write a loss, and weights of examples."""

from __future__ import annotations

import functools

import keras
import numpy as np

from tests.keras.registry import ALIKE, row
from tests.keras.run import BATCH, fitted, momentum
from tests.training.linear_model import Prediction
from tests.training.replicas import NUM_FEATURES, NUM_OUTPUTS, small_model

losses = functools.partial(row, "Losses")


def classifier():
    """Three classes of `NUM_FEATURES` features."""
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            keras.layers.Dense(9, activation="tanh"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


def labelled(run, num_batches=3):
    """Inputs and labels of `classifier`."""
    x, y = run.examples(num_batches)
    return x, np.argmax(y[:, :3], axis=1)


def weights_of(rows):
    return np.random.default_rng(5).uniform(0.5, 2.0, len(rows)).astype(np.float32)


@losses("regularizers", full=True)
def regularizers(run):
    decay = keras.regularizers.L1L2(0.01, 0.05)
    layer = keras.layers.Dense(9, kernel_regularizer=decay, activity_regularizer="l2")
    model = run.compiled(lambda: small_model(layer))
    return run.result(model, run.fit(model, *run.examples()))


@losses("add_loss", full=True)
def added(run):
    model = run.compiled(lambda: small_model(Prediction()))
    return run.result(model, run.fit(model, *run.examples()))


@losses("reduction='sum'", note="one device: the sum divided by the number of replicas", full=True)
def summed(run):
    loss = keras.losses.MeanSquaredError(reduction="sum")
    weights = {"loss_weights": [1 / run.number]} if run.is_plain else {}
    return fitted(run, lambda: momentum(0.005), loss=loss, **weights)


@losses("a function of one's own", full=True)
def own_function(run):
    def huber_like(y, prediction):
        return keras.ops.mean(keras.ops.sqrt(1 + keras.ops.square(y - prediction)), axis=-1)

    return fitted(run, loss=huber_like)


@losses("crossentropy of labels, accuracy", full=True)
def crossentropy(run):
    settings = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}
    model = run.compiled(classifier, **settings)
    return run.result(model, run.fit(model, *labelled(run)))


@losses("class_weight")
def class_weight(run):
    model = run.compiled(classifier, loss="sparse_categorical_crossentropy")
    weights = {0: 0.5, 1: 1.0, 2: 2.5}
    return run.result(model, run.fit(model, *labelled(run), class_weight=weights))


@losses("sample_weight, weighted_metrics")
def sample_weight(run):
    model = run.compiled(metrics=["mae"], weighted_metrics=["mae"])
    x, y = run.examples()
    return run.result(model, run.fit(model, x, y, sample_weight=weights_of(x)))


def two_ended():
    one, other = keras.Input((NUM_FEATURES,), name="one"), keras.Input((3,), name="other")
    joined = keras.layers.Concatenate()([keras.layers.Dense(5, activation="tanh")(one), other])
    outputs = {
        "values": keras.layers.Dense(NUM_OUTPUTS, name="values")(joined),
        "label": keras.layers.Dense(3, activation="softmax", name="label")(joined),
    }
    return keras.Model({"one": one, "other": other}, outputs)


@losses("several inputs, outputs and losses, loss_weights")
def several(run):
    model = run.compiled(
        two_ended,
        loss={"values": "mse", "label": "sparse_categorical_crossentropy"},
        loss_weights={"values": 1.0, "label": 0.3},
        metrics={"values": ["mae"], "label": ["accuracy"]},
    )
    x, y = run.examples()
    inputs = {"one": x, "other": y[:, :3]}
    targets = {"values": y, "label": labelled(run)[1]}
    return run.result(model, run.fit(model, inputs, targets))


def tagger():
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(11, 6, mask_zero=True),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


def tokens(num_batches, lengths):
    random = np.random.default_rng(1)
    count = num_batches * BATCH
    words = random.integers(1, 11, (count, 5)).astype(np.int32)
    words[np.arange(5) >= np.resize(lengths, count)[:, np.newaxis]] = 0
    return words, random.integers(0, 3, (count, 5))


def tagged(run, lengths):
    model = run.compiled(
        tagger, loss="sparse_categorical_crossentropy", weighted_metrics=["accuracy"]
    )
    return run.result(model, run.fit(model, *run.batches(*tokens(3, lengths))))


@losses("masks, rows of equal length")
def masks(run):
    return tagged(run, [3])


@losses(
    "masks, rows of unlike length",
    cell=ALIKE,
    note="a replica's mean is over its own entries that the mask leaves",
    full=True,
)
def unlike_masks(run):
    return tagged(run, [2, 5, 1, 4])
