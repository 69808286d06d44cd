"""BERT's encoder and its masked language model, of Keras' own layers."""

from __future__ import annotations

from typing import NamedTuple

import keras
from keras import layers, ops


class Size(NamedTuple):
    """Of an encoder.

    Args:
        layers: number of encoder layers.
        hidden: length of the vector of a position.
        heads: of attention.
        inner: length within the feed-forward part.
        positions: longest sequence.
        dropout: share of what is dropped in training.
    """

    layers: int
    hidden: int
    heads: int
    inner: int
    positions: int
    dropout: float


TINY = Size(2, 64, 2, 256, 64, 0.0)
LARGE = Size(24, 1024, 16, 4096, 512, 0.1)
# Standard deviation of the first weights, and what layer normalization adds to a variance.
_DEVIATION, _EPSILON = 0.02, 1e-12


def build(vocabulary: int, size: Size) -> keras.Model:
    """Returns the masked language model, not compiled.

    It takes {"pieces": int32 [batch, length], "positions": int32 [batch, masked]} and returns
    logits, float32 [batch, masked, vocabulary], of the pieces at those positions only. The length
    may be another one in every batch. The output layer has the embedding's matrix.

    Args:
        vocabulary: number of word pieces.
        size: TINY, LARGE or another one.

    Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019,
    without the prediction of the next sentence (Liu et al., "RoBERTa", 2019, section 4.2).
    """
    pieces = keras.Input((None,), dtype="int32", name="pieces")
    positions = keras.Input((None,), dtype="int32", name="positions")
    first = keras.initializers.TruncatedNormal(stddev=_DEVIATION)
    embedding = layers.ReversibleEmbedding(
        vocabulary, size.hidden, embeddings_initializer=first, name="pieces_embedding"
    )
    places = layers.Embedding(size.positions, size.hidden, first, name="positions_embedding")
    # 0, 1, 2 .. in every row. The length is not known here.
    counted = ops.cumsum(ops.ones_like(pieces), axis=1) - 1
    hidden = embedding(pieces) + places(counted)
    hidden = layers.Dropout(size.dropout)(_normalized(hidden))
    for _ in range(size.layers):
        hidden = _encoder_layer(hidden, size)
    masked = ops.take_along_axis(hidden, positions[:, :, None], axis=1)
    masked = layers.Dense(size.hidden, "gelu", kernel_initializer=first, name="head")(masked)
    logits = embedding(_normalized(masked), reverse=True)
    logits = layers.Activation("linear", dtype="float32", name="logits")(logits)
    return keras.Model({"pieces": pieces, "positions": positions}, logits)


def _encoder_layer(hidden, size: Size):
    """Attention and a feed-forward part, each with its own input added, then normalized."""
    attention = layers.MultiHeadAttention(
        size.heads,
        size.hidden // size.heads,
        dropout=size.dropout,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=_DEVIATION),
    )
    attended = layers.Dropout(size.dropout)(attention(hidden, hidden))
    hidden = _normalized(hidden + attended)
    inner = _dense(size.inner, "gelu")(hidden)
    outer = layers.Dropout(size.dropout)(_dense(size.hidden)(inner))
    return _normalized(hidden + outer)


def _dense(units: int, activation: str | None = None) -> layers.Layer:
    first = keras.initializers.TruncatedNormal(stddev=_DEVIATION)
    return layers.Dense(units, activation, kernel_initializer=first)


def _normalized(hidden):
    # In float32 under mixed precision: the added epsilon is below bfloat16's.
    return layers.LayerNormalization(epsilon=_EPSILON, dtype="float32")(hidden)
