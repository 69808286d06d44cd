"""One epoch of the claim's workers is what N gradients and the reference reduction give."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from models.digits import claim, optimizers
from models.digits.batches import ShiftedImages
from models.digits.image_set import ImageSet, Split
from tests.reference import adasum, mean, sum

REFERENCE = {"adasum": adasum, "mean": mean, "sum": sum}
IMAGES = 4


RATES = {"sgd": 0.1, "momentum": 0.05, "adam": 0.001}


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    split = Split(random.integers(0, 256, (31, 8, 8, 1), np.uint8), np.arange(31) % 10)
    return ImageSet(split, split, 10)


@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.parametrize("reduction", ["adasum", "mean", "sum"])
@pytest.mark.parametrize("number", [1, 3])
def test_an_epoch_matches_the_reference(images, reduction, number, optimizer):
    rate = RATES[optimizer]
    options = [f"--images={IMAGES}", f"--optimizer={optimizer}", f"--rate={rate}"]
    flags.FLAGS(["claim", "--folder=unused", *options])
    examples = ShiftedImages(images.train)
    workers = claim.Workers(number, reduction, images, examples, seed=5)
    weights = workers.model.get_weights()
    copies = [keras.models.clone_model(workers.model) for _ in range(number)]
    each = [optimizers.make(optimizer, rate) for _ in range(number)]
    order = np.random.default_rng(1005).permutation(31)
    workers.train_epoch()
    for _ in range(31 // (number * IMAGES)):
        leaves = []
        for copy, own in zip(copies, each):
            drawn, order = order[:IMAGES], order[IMAGES:]
            copy.set_weights(weights)
            own.apply(gradients(copy, *examples.at(tf.constant(drawn))), copy.trainable_weights)
            leaves.append([new - old for new, old in zip(copy.get_weights(), weights)])
        steps = [REFERENCE[reduction].reduce(list(parts)) for parts in zip(*leaves)]
        weights = [weight + step for weight, step in zip(weights, steps)]
    for got, want in zip(workers.model.get_weights(), weights):
        np.testing.assert_allclose(got, want, atol=2e-5)


def gradients(model, images, labels):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(labels, model(images))
    return tape.gradient(value, [weight.value for weight in model.trainable_weights])
