"""Networks whose training steps are timed, with random examples of the right shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

_CLASSES = 10
_VOCABULARY, _LENGTH, _WIDTH, _HEADS = 8000, 64, 256, 4


class Network(NamedTuple):
    """How to make a model, its loss, and `examples(number)` -> (inputs, targets)."""

    make: Callable[[], keras.Model]
    loss: Callable[[], keras.losses.Loss]
    examples: Callable[[int], tuple[np.ndarray, np.ndarray]]


def _cnn() -> keras.Model:
    """Four stages of two 3x3 convolutions, 4.7 M parameters, for images of 32 x 32."""
    inputs = features = keras.Input((32, 32, 3))
    for filters in (64, 128, 256, 512):
        for stride in (2, 1):
            features = keras.layers.Conv2D(filters, 3, stride, padding="same", activation="relu")(
                features
            )
    features = keras.layers.GlobalAveragePooling2D()(features)
    return keras.Model(inputs, keras.layers.Dense(_CLASSES)(features))


def _transformer() -> keras.Model:
    """A language model of four blocks, width 256, 7.2 M parameters."""
    inputs = keras.Input((_LENGTH,), dtype="int32")
    features = keras.layers.Embedding(_VOCABULARY, _WIDTH)(inputs)
    for _ in range(4):
        normed = keras.layers.LayerNormalization()(features)
        attention = keras.layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS)
        features += attention(normed, normed, use_causal_mask=True)
        hidden = keras.layers.LayerNormalization()(features)
        hidden = keras.layers.Dense(4 * _WIDTH, activation="gelu")(hidden)
        features += keras.layers.Dense(_WIDTH)(hidden)
    return keras.Model(inputs, keras.layers.Dense(_VOCABULARY)(features))


def _images(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((number, 32, 32, 3), np.float32),
        rng.integers(0, _CLASSES, number),
    )


def _sentences(number: int) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(0).integers(0, _VOCABULARY, (number, _LENGTH + 1), np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def _from_logits() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


NETWORKS = {
    "cnn": Network(_cnn, _from_logits, _images),
    "transformer": Network(_transformer, _from_logits, _sentences),
}
