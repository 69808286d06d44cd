"""One epoch of the claim's workers is what N gradients and the reference reduction give."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from models.digits import claim
from models.digits.batches import ShiftedImages
from models.digits.image_set import ImageSet, Split
from tests.reference import adasum, mean, sum

REFERENCE = {"adasum": adasum, "mean": mean, "sum": sum}
IMAGES, RATE = 4, 0.1


@pytest.fixture(autouse=True)
def options(tmp_path):
    flags.FLAGS(["claim", f"--folder={tmp_path}", f"--rate={RATE}", f"--images={IMAGES}"])


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    split = Split(random.integers(0, 256, (31, 8, 8, 1), np.uint8), np.arange(31) % 10)
    return ImageSet(split, split, 10)


@pytest.mark.parametrize("reduction", ["adasum", "mean", "sum"])
@pytest.mark.parametrize("number", [1, 3])
def test_an_epoch_matches_the_reference(images, reduction, number):
    examples = ShiftedImages(images.train)
    workers = claim.Workers(number, reduction, images, examples, seed=5)
    copy = keras.models.clone_model(workers.model)
    copy.set_weights(workers.model.get_weights())
    order = np.random.default_rng(1005).permutation(31)
    workers.train_epoch()
    for _ in range(31 // (number * IMAGES)):
        leaves = []
        for _ in range(number):
            drawn, order = order[:IMAGES], order[IMAGES:]
            leaves.append(gradients(copy, *examples.at(tf.constant(drawn))))
        for variable, parts in zip(copy.trainable_variables, zip(*leaves)):
            variable.assign(variable - RATE * REFERENCE[reduction].reduce(parts))
    for got, want in zip(workers.model.get_weights(), copy.get_weights()):
        np.testing.assert_allclose(got, want, atol=2e-5)


def gradients(model, images, labels):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(labels, model(images))
    return [part.numpy() for part in tape.gradient(value, model.trainable_weights)]
