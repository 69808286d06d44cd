"""Pairs of words that stand near each other, and negatives to tell them from."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from models.common.datasets import DatasetError
from models.word2vec.corpus import Corpus

# Negatives are drawn as often as words occur, to this power.
_POWER = 0.75
# Words that are cut into pairs at once; no pair reaches from one such chunk into the next.
CHUNK = 1_000
# Most pairs among which the next is drawn.
_SHUFFLED = 1_000_000


class SkipGrams:
    """Examples of a corpus: a word, one near it, and words that are drawn as negatives.

    In every pass frequent words are left out at random, each word has a window of a radius drawn
    from 1 .. `window`, and it makes a pair with each word in it.

    Args:
        corpus: the text.
        window: largest distance of a pair.
        negatives: drawn for each pair, independently of it.
        subsampling: t of Mikolov et al.: a word of frequency f is kept with probability
            min(1, sqrt(t / f)); 0 keeps all.

    Source: T. Mikolov et al., "Distributed Representations of Words and Phrases and their
    Compositionality", 2013.
    """

    def __init__(self, corpus: Corpus, window: int, negatives: int, subsampling: float = 0):
        self._corpus, self._window, self._negatives = corpus, window, negatives
        self._keep = keep_probabilities(corpus.counts, subsampling)
        cumulated = np.cumsum(corpus.counts**_POWER)
        with tf.device("CPU:0"):
            self._cumulated = tf.constant(cumulated / cumulated[-1])
            self._words, self._sentences = map(tf.constant, corpus[:2])
            self._keep_tensor = tf.constant(self._keep, tf.float32)

    def expected_pairs(self) -> int:
        """Pairs of one pass, about: the same on every rank, whatever the seeds."""
        random = np.random.default_rng(0)
        kept = random.random(len(self._corpus.words)) < self._keep[self._corpus.words]
        sentences = self._corpus.sentences[kept]
        total = 0.0
        for distance in range(1, self._window + 1):
            share = (self._window + 1 - distance) / self._window  # whose radius reaches so far
            total += 2 * share * np.count_nonzero(sentences[distance:] == sentences[:-distance])
        return int(total)

    def batches(self, batch_size: int, ranks: int = 1, rank: int = 0) -> tf.data.Dataset:
        """Batches without end: candidates, int32 [b, 2 + negatives], and labels, float32.

        The first column is the word, the second the one near it, the others are negatives; the
        labels of all but the first are [1, 0, 0, ...].

        Args:
            batch_size: b.
            ranks: how many share the corpus.
            rank: whose part of it to take.
        """
        return self._finished(self._pairs(ranks, rank).repeat(), batch_size)

    def one_pass(self) -> np.ndarray:
        """All candidates of one pass in random order, int32 [n, 2 + negatives]."""
        data = self._finished(self._pairs(1, 0), CHUNK, drop_remainder=False)
        return np.concatenate([candidates.numpy() for candidates, _ in data])

    def _pairs(self, ranks: int, rank: int) -> tf.data.Dataset:
        chunks = math.ceil(len(self._corpus.words) / CHUNK)
        if chunks < ranks:
            raise DatasetError(
                f"expected a text of at least {ranks * CHUNK} words for {ranks} ranks. "
                f"Received: {len(self._corpus.words)}. Take more text or fewer ranks."
            )
        order = tf.data.Dataset.range(chunks).shard(ranks, rank)
        pairs = order.shuffle(chunks).map(self._pairs_of_chunk).unbatch()
        return pairs.shuffle(min(_SHUFFLED, self.expected_pairs() // ranks + CHUNK))

    def _finished(
        self, pairs: tf.data.Dataset, batch_size: int, drop_remainder: bool = True
    ) -> tf.data.Dataset:
        options = tf.data.Options()
        # A rank was seen to wait for a minute at the end of `fit` for the thread that tunes.
        options.autotune.enabled = False
        # Each rank has pairs of its own.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        batches = pairs.batch(batch_size, drop_remainder=drop_remainder).map(self._with_negatives)
        return batches.prefetch(2).with_options(options)

    def _pairs_of_chunk(self, chunk: tf.Tensor) -> tf.Tensor:
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        words, sentences = self._words[part], self._sentences[part]
        is_kept = tf.random.uniform(tf.shape(words)) < tf.gather(self._keep_tensor, words)
        words, sentences = tf.boolean_mask(words, is_kept), tf.boolean_mask(sentences, is_kept)
        radius = tf.random.uniform(tf.shape(words), 1, self._window + 1, tf.int32)
        found = []
        for distance in range(1, self._window + 1):
            pairs = tf.stack([words[:-distance], words[distance:]], axis=1)
            together = sentences[:-distance] == sentences[distance:]
            found.append(tf.boolean_mask(pairs, together & (radius[:-distance] >= distance)))
            back = tf.reverse(pairs, axis=[1])
            found.append(tf.boolean_mask(back, together & (radius[distance:] >= distance)))
        return tf.concat(found, axis=0)

    def _with_negatives(self, pairs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shape = (tf.shape(pairs)[0], self._negatives)
        drawn = tf.random.uniform(tf.reshape(shape, [2]), dtype=tf.float64)
        negatives = tf.searchsorted(self._cumulated, tf.reshape(drawn, [-1]), side="right")
        candidates = tf.concat([pairs, tf.reshape(negatives, shape)], axis=1)
        labels = tf.one_hot(tf.zeros(shape[0], tf.int32), 1 + self._negatives)
        return tf.ensure_shape(candidates, (None, 2 + self._negatives)), labels


def keep_probabilities(counts: np.ndarray, subsampling: float) -> np.ndarray:
    """Of each word: min(1, sqrt(subsampling / frequency)), or 1 where `subsampling` is 0."""
    if not subsampling:
        return np.ones(len(counts))
    return np.minimum(1, np.sqrt(subsampling * counts.sum() / counts))
