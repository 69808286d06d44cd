"""A data set of texts as batches of masked sequences."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
import tokenizers

from models.bert import pieces

# Texts that are cut into sequences together; what is left at their end is dropped.
_TOGETHER = 64
_SHUFFLED_SEQUENCES = 16_384
# Texts by which the length of all is estimated.
_MEASURED_TEXTS = 2_000


class Text:
    """Sequences of one length, masked anew in every epoch.

    Args:
        builder: a prepared data set of tensorflow_datasets with a feature "text".
        tokenizer: of pieces.train_tokenizer.
        length: of a sequence, in word pieces.
    """

    def __init__(
        self, builder: tfds.core.DatasetBuilder, tokenizer: tokenizers.Tokenizer, length: int
    ):
        self._builder, self._tokenizer, self._length = builder, tokenizer, length

    def count(self, split: str) -> int:
        """Number of sequences of a split, estimated by its first texts."""
        texts = texts_of(self._builder, split, _MEASURED_TEXTS)
        measured = sum(map(len, self._tokenizer.encode_batch(texts)))
        total = self._builder.info.splits[split].num_examples
        return max(1, measured * total // (len(texts) * self._length))

    def shuffled(self, split: str, batch_size: int, seed: int) -> tf.data.Dataset:
        """Batches of a split in another order and with other masks in every epoch, without end."""
        config = tfds.ReadConfig(shuffle_seed=seed)
        rows = self._builder.as_dataset(split=split, read_config=config, shuffle_files=True)
        rows = self._sequences(rows).shuffle(_SHUFFLED_SEQUENCES, seed=seed).repeat()
        return self._masked(rows.batch(batch_size, drop_remainder=True), seed)

    def in_order(self, split: str, batch_size: int) -> tf.data.Dataset:
        """Batches of a split, every sequence once, with the same masks each time."""
        rows = self._builder.as_dataset(split=split, shuffle_files=False)
        return self._masked(self._sequences(rows).batch(batch_size), seed=0)

    def _sequences(self, rows: tf.data.Dataset) -> tf.data.Dataset:
        def cut(texts: np.ndarray) -> np.ndarray:
            decoded = [text.decode() for text in texts]
            return pieces.sequences(self._tokenizer, decoded, self._length)

        def cut_in_graph(row):
            cuts = tf.numpy_function(cut, [row["text"]], tf.int32)
            return tf.ensure_shape(cuts, [None, self._length])

        return rows.batch(_TOGETHER).map(cut_in_graph, deterministic=True).unbatch()

    def _masked(self, batches: tf.data.Dataset, seed: int) -> tf.data.Dataset:
        vocabulary = self._tokenizer.get_vocab_size()

        def mask(index, batch):
            chosen = tf.stack([tf.constant(seed, tf.int64), index])
            return pieces.masked(batch, vocabulary, chosen)

        return batches.enumerate().map(mask).prefetch(tf.data.AUTOTUNE)


def texts_of(builder: tfds.core.DatasetBuilder, split: str, most: int = -1) -> list[str]:
    """The first texts of a split; all if `most` is -1."""
    rows = builder.as_dataset(split=split, shuffle_files=False).take(most)
    return [row["text"].decode() for row in tfds.as_numpy(rows)]
