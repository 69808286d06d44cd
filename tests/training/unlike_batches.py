"""What the tests of `batch_share` share: parts of batches, and trainings to compare with."""

from __future__ import annotations

import itertools

import keras
import numpy as np

import tf_adasum
from tests.reference import adasum
from tests.training.replicas import small_model
from tf_adasum.collectives.communicator import world

SHARES = [8, 24, 32, 64, 16][: world().size]
BATCH = sum(SHARES)
RATE = 0.5


def optimizer_by(how, **settings):
    """A plain optimizer, or one of tf_adasum's, that steps as SGD does."""
    if how == "plain":
        return keras.optimizers.SGD(RATE)
    if how == "sketched":
        return tf_adasum.optimizers.SketchedSGD(RATE, 0.0, least_elements=10**6)
    return tf_adasum.wrap(keras.optimizers.SGD(RATE), mode=how, **settings)


def model_under(replicas, how, scales_loss=False, compiled=(), **settings):
    """A model with the same first weights each time."""
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = optimizer_by(how, **settings)
        if scales_loss:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        model.compile(optimizer, loss="mse", **dict(compiled))
    return model


def one_process(x, y, batch):
    """The weights of a plain Keras training."""
    keras.utils.set_random_seed(7)
    model = small_model()
    model.compile(keras.optimizers.SGD(RATE), loss="mse")
    loss = model.fit(x, y, batch, shuffle=False, verbose=0).history["loss"]
    return model.get_weights(), loss


def assert_near(mine, expected):
    """Fails unless all weights are within 1e-6."""
    for own, other in zip(mine, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-6)


def parts_of(rows):
    """The rows of each rank, batch by batch."""
    ends = np.cumsum([0, *SHARES]) / BATCH
    batches = [(begin, min(BATCH, rows - begin)) for begin in range(0, rows, BATCH)]
    bounds = [begin + np.round(count * ends).astype(int) for begin, count in batches]
    return [list(itertools.pairwise(each)) for each in bounds]


def combined(weights, x, y, parts, reduction):
    """The weights after one exchange of the steps that each rank takes on its parts, in turn."""
    leaves = [[np.zeros_like(weight) for weight in weights] for _ in SHARES]
    counts = np.zeros(len(SHARES))
    for rank in range(len(SHARES)):
        model = small_model()
        model.compile(keras.optimizers.SGD(RATE), loss="mse")
        model.set_weights(weights)
        for begin, end in (of_ranks[rank] for of_ranks in parts):
            counts[rank] += end - begin
            if end > begin:
                model.train_on_batch(x[begin:end], y[begin:end])
        leaves[rank] = [new - old for new, old in zip(model.get_weights(), weights)]
    number = np.sum(counts > 0) if reduction == "adasum" else len(SHARES)
    scales = number * counts / counts.sum()
    reduce = adasum.reduce if reduction == "adasum" else lambda each: np.mean(each, axis=0)
    changes = [
        reduce([scale * change for scale, change in zip(scales, of_ranks)])
        for of_ranks in zip(*leaves)
    ]
    return [weight + change for weight, change in zip(weights, changes)]
