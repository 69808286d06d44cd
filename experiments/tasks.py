"""What the experiments learn: small enough that two cores train it hundreds of times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from models.digits import image_set, network, settings
from models.digits.batches import ShiftedImages

CLASSES = 10


class Examples(NamedTuple):
    """Inputs, float32 [n, ...], and labels, int32 [n]."""

    inputs: np.ndarray
    labels: np.ndarray


def crossentropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean loss of classes, int32 [n], by logits, [n, classes]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


class Task(NamedTuple):
    """Examples, and a model of them that returns logits.

    The validation examples choose settings, and the test examples judge; neither does both.
    """

    name: str
    train: Examples
    validation: Examples
    test: Examples
    build: Callable[[], keras.Model]
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = crossentropy


@functools.cache
def generated(features: int = 64, noise: float = 1.2) -> Task:
    """Ten classes of four Gaussian clouds each, 60,000 examples.

    Args:
        features: of an example. The centres of the clouds are drawn from N(0, 1) in each.
        noise: standard deviation of an example from its centre.

    Returns:
        The task, with a network of one hidden layer of 128 units.
    """
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLASSES, 4, features))

    def draw(number: int) -> Examples:
        labels = random.integers(CLASSES, size=number)
        inputs = centres[labels, random.integers(4, size=number)]
        inputs = inputs + noise * random.standard_normal(inputs.shape)
        return Examples(inputs.astype(np.float32), labels.astype(np.int32))

    def build() -> keras.Model:
        layers = keras.layers
        hidden = layers.Dense(128, activation="relu")
        return keras.Sequential([keras.Input((features,)), hidden, layers.Dense(CLASSES)])

    return Task("generated", draw(60_000), draw(10_000), draw(10_000), build)


@functools.cache
def digits() -> Task:
    """scikit-learn's digits in all displacements by one pixel, and the network of `make demo`.

    One training image in five validates, in all its displacements.
    """
    images = image_set.load("digits")
    is_validation = np.arange(len(images.train.images)) % 5 == 0

    def examples(split: image_set.Split, shift: int) -> Examples:
        shifted = ShiftedImages(split, shift, statistics=images.train)
        inputs, labels = shifted.at(tf.range(len(shifted)))
        return Examples(inputs.numpy(), labels.numpy().astype(np.int32))

    def part(chosen: np.ndarray) -> image_set.Split:
        return image_set.Split(images.train.images[chosen], images.train.labels[chosen])

    return Task(
        "digits",
        examples(part(~is_validation), settings.SHIFT),
        examples(part(is_validation), settings.SHIFT),
        examples(images.test, settings.TEST_SHIFT),
        lambda: network.build(images.image_shape, images.num_classes),
    )


TASKS = {"generated": generated, "digits": digits}
