"""The task of text: word pieces that a small BERT finds where they are masked."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

import models.common.python_topics  # noqa: F401 (makes its name known)
from experiments.tasks import MANY, Examples, Task
from models.bert import network, pieces
from models.bert.text import texts_of
from models.common import datasets

# Pieces of a sequence, different pieces, and how often each training sequence is masked.
LENGTH, VOCABULARY, MASKS = 32, 1_000, 4


@functools.cache
def text() -> Task:
    """Python's help texts, and a BERT of two layers (models/bert).

    An example is a masked sequence and the positions that are asked for, int32 [length + masked];
    its labels are the pieces there. Each training sequence occurs with four masks.
    """
    builder = datasets.prepared("python_topics")
    tokenizer = pieces.train_tokenizer(texts_of(builder, "train"), VOCABULARY)

    def examples(split: str, masks: int) -> Examples:
        rows = pieces.sequences(tokenizer, texts_of(builder, split), LENGTH)
        inputs, labels = [], []
        for seed in range(masks):
            shown, asked = pieces.masked(rows, VOCABULARY, tf.constant([seed, 0], tf.int64))
            inputs.append(np.concatenate([shown["pieces"], shown["positions"]], axis=1))
            labels.append(asked)
        return Examples(np.concatenate(inputs), np.concatenate(labels))

    def build() -> keras.Model:
        both = keras.Input((LENGTH + pieces.num_masked(LENGTH),), dtype="int32")
        model = network.build(VOCABULARY, network.TINY)
        logits = model({"pieces": both[:, :LENGTH], "positions": both[:, LENGTH:]})
        return keras.Model(both, logits)

    parts = (examples("train", MASKS), examples("validation", 1), examples("test", MASKS))
    return Task("text", *parts, build, compiled_to=MANY)
