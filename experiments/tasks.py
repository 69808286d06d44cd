"""What the experiments learn: small enough that two cores train it hundreds of times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import models.word2vec.dataset  # noqa: F401 (makes its name known)
from models.common import datasets
from models.digits import image_set, network, settings
from models.digits.batches import ShiftedImages
from models.word2vec import analogies, corpus, skip_grams
from models.word2vec import network as word_network
from models.word2vec.settings import CONFIGURATIONS

CLASSES = 10


class Examples(NamedTuple):
    """Inputs, [n, ...], and labels, int32 [n]."""

    inputs: np.ndarray
    labels: np.ndarray


def crossentropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean loss of classes, int32 [n], by logits, [n, classes]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


MANY = 1_000


class Task(NamedTuple):
    """Examples, and a model of them that returns logits.

    The validation examples choose settings, and the test examples judge; neither does both. XLA
    compiles the steps of up to `compiled_to` workers, which pays; not for convolutions of several.
    """

    name: str
    train: Examples
    validation: Examples
    test: Examples
    build: Callable[[], keras.Model]
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = crossentropy
    compiled_to: int = 0


@functools.cache
def generated(features: int = 64, noise: float = 1.2, hidden: int = 128) -> Task:
    """Ten classes of four Gaussian clouds each, 60,000 examples.

    Args:
        features: of an example. The centres of the clouds are drawn from N(0, 1) in each.
        noise: standard deviation of an example from its centre.
        hidden: units of the network's one hidden layer.

    Returns:
        The task.
    """
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLASSES, 4, features))

    def draw(number: int) -> Examples:
        labels = random.integers(CLASSES, size=number)
        inputs = centres[labels, random.integers(4, size=number)]
        inputs = inputs + noise * random.standard_normal(inputs.shape)
        return Examples(inputs.astype(np.float32), labels.astype(np.int32))

    def build() -> keras.Model:
        return _perceptron((features,), hidden)

    return Task("generated", draw(60_000), draw(10_000), draw(10_000), build)


def _perceptron(shape: tuple[int, ...], hidden: int) -> keras.Model:
    layers = keras.layers
    first = layers.Dense(hidden, activation="relu")
    return keras.Sequential([keras.Input(shape), layers.Flatten(), first, layers.Dense(CLASSES)])


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
        compiled_to=1,
    )


@functools.cache
def flat_digits(hidden: int = 128) -> Task:
    """The digits, and the network of the generated task, which costs a tenth."""
    convolutional = digits()
    shape = convolutional.train.inputs.shape[1:]
    return convolutional._replace(build=lambda: _perceptron(shape, hidden), compiled_to=0)


@functools.cache
def words(passes: int = 2) -> Task:
    """The sentences with planted analogies, and the network, of models.word2vec's small size.

    Args:
        passes: over the text, each with windows and negatives of its own.

    Returns:
        The task. Training examples are candidates of which number 0 is the neighbour, those of all
        passes one after the other. Validation and test examples are questions, numbers of three
        words, and the fourth; no word is in both.
    """
    chosen = CONFIGURATIONS["small"]
    builder = datasets.prepared(chosen.dataset)
    text = corpus.read(corpus.texts_of(builder, chosen.split), chosen.min_count)
    grams = skip_grams.SkipGrams(text, chosen.window, chosen.negatives, chosen.subsampling)
    tf.random.set_seed(0)
    drawn = np.concatenate([grams.one_pass() for _ in range(passes)])

    def questions(part: str) -> Examples:
        numbers = analogies.known(analogies.of_families(part), text.vocabulary)
        return Examples(numbers[:, :3], numbers[:, 3])

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        is_near = tf.one_hot(labels, 1 + chosen.negatives)
        terms = tf.nn.sigmoid_cross_entropy_with_logits(labels=is_near, logits=logits)
        return tf.reduce_mean(tf.reduce_sum(terms, axis=1))

    return Task(
        "words",
        Examples(drawn, np.zeros(len(drawn), np.int32)),
        questions("validation"),
        questions("test"),
        lambda: word_network.build(len(text.vocabulary), chosen.dimension, chosen.negatives),
        loss,
        compiled_to=MANY,
    )


TASKS = {"generated": generated, "digits": digits}
