"""What is trained on: words as numbers, pairs in windows, negatives; and the rows of a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models.word2vec import corpus, network
from models.word2vec.skip_grams import CHUNK, SkipGrams, keep_probabilities


def test_a_text_as_numbers():
    text = corpus.read(["A b, a; non-zero b", "c a", "b non-zero. A"], min_count=2)
    assert text.vocabulary == ["a", "b", "non-zero"]
    assert text.counts.tolist() == [4, 3, 2]
    assert text.words.tolist() == [0, 1, 0, 2, 1, 0, 1, 2, 0]
    assert text.sentences.tolist() == [0] * 5 + [1] + [2] * 3


@pytest.mark.parametrize("texts", [[], ["", "?"], ["one two"]])
def test_a_text_without_frequent_words_is_refused_in_one_line(texts):
    with pytest.raises(
        ValueError, match=r"expected a text .* 2 times\. Received: \d words"
    ) as told:
        corpus.read(texts, min_count=2)
    assert "\n" not in str(told.value)


@pytest.fixture(scope="module")
def text():
    """20,000 words, Zipf-like, in sentences of 1 to 30."""
    random = np.random.default_rng(2)
    words = (50 * random.random(20_000) ** 3).astype(np.int32)
    sentences = np.repeat(np.arange(2_000, dtype=np.int32), random.integers(1, 31, 2_000))[:20_000]
    names = [str(i) for i in range(50)]
    return corpus.Corpus(words, sentences, names, np.bincount(words, minlength=50))


def _pair_counts(text, window):
    """Expected number of each pair in a pass, [words, words], from the definition."""
    expected = np.zeros((len(text.vocabulary),) * 2)
    for distance in range(1, window + 1):
        left = np.arange(len(text.words) - distance)
        right = left + distance
        together = (text.sentences[left] == text.sentences[right]) & (
            left // CHUNK == right // CHUNK
        )
        pair = text.words[left[together]], text.words[right[together]]
        for one, other in (pair, pair[::-1]):
            np.add.at(expected, (one, other), (window + 1 - distance) / window)
    return expected


def test_pairs_are_those_of_the_windows(text):
    tf.random.set_seed(4)
    grams = SkipGrams(text, window=4, negatives=1)
    found = np.zeros((50, 50))
    passes = 4
    for _ in range(passes):
        np.add.at(found, tuple(grams.one_pass()[:, :2].T), 1)
    expected = passes * _pair_counts(text, 4)
    assert not found[expected == 0].any()
    # Each pair that may be is drawn or not: the variance is less than the expected number.
    assert np.abs(found - expected).max() < 6 * np.sqrt(expected.max())
    assert found.sum() == pytest.approx(expected.sum(), rel=0.01)
    assert grams.expected_pairs() == pytest.approx(expected.sum() / passes, rel=0.01)


def test_frequent_words_are_left_out_at_random(text):
    tf.random.set_seed(5)
    keep = keep_probabilities(text.counts, 0.01)
    frequency = text.counts / len(text.words)
    np.testing.assert_allclose(keep, [min(1, (0.01 / f) ** 0.5) for f in frequency])
    assert keep.min() < 0.5 and (keep == 1).any()
    grams = SkipGrams(text, window=1, negatives=1, subsampling=0.01)
    words = np.bincount(grams.one_pass()[:, 0], minlength=50)
    shares = text.counts * keep
    np.testing.assert_allclose(words / words.sum(), shares / shares.sum(), atol=0.01)
    assert grams.expected_pairs() == pytest.approx(words.sum(), rel=0.02)


def test_negatives_are_drawn_by_count_to_three_quarters(text):
    tf.random.set_seed(6)
    grams = SkipGrams(text, window=4, negatives=15)
    negatives = grams.one_pass()[:, 2:].ravel()
    expected = text.counts**0.75 / np.sum(text.counts**0.75)
    found = np.bincount(negatives, minlength=50) / len(negatives)
    deviation = np.sqrt(expected * (1 - expected) / len(negatives))
    assert np.all(np.abs(found - expected) < 5 * deviation)


def test_batches_have_the_near_word_first(text):
    candidates, labels = next(iter(SkipGrams(text, 4, 3).batches(64)))
    assert candidates.shape == (64, 5) and candidates.dtype == tf.int32
    np.testing.assert_array_equal(labels, [[1, 0, 0, 0]] * 64)


def test_ranks_share_the_text(text):
    """Each pair of neighbours is one rank's: together they read what one alone would."""
    numbered = corpus.Corpus(
        np.arange(20_000, dtype=np.int32), text.sentences, [""] * 20_000, np.ones(20_000, int)
    )
    grams = SkipGrams(numbered, 1, 1)
    alone, *shares = (
        {tuple(pair) for pair in np.concatenate([*grams._pairs(ranks, rank).batch(5_000)]).tolist()}
        for ranks, rank in ((1, 0), (3, 0), (3, 1), (3, 2))
    )
    assert set.union(*shares) == alone
    assert sum(map(len, shares)) == len(alone)


def test_too_little_text_for_the_ranks_is_refused(text):
    with pytest.raises(ValueError, match=r"at least 21000 words for 21 ranks\. Received: 20000"):
        SkipGrams(text, 4, 3).batches(8, ranks=21, rank=0)


def test_gradients_are_rows():
    model = network.build(words=30, dimension=4, negatives=2)
    candidates = tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(candidates) * [[1.0, 2, 3]])
    weights = [variable.value for variable in model.trainable_variables]
    rows = {}
    for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, weights)):
        assert isinstance(gradient, tf.IndexedSlices)
        rows[weight.path.split("/")[-2]] = sorted(np.ravel(gradient.indices))
    assert rows == {"vectors": [1, 5], "neighbours": [2, 3, 4, 6, 7, 8]}


def test_logits_are_products_of_vectors():
    model = network.build(words=30, dimension=4, negatives=2)
    for layer in ("vectors", "neighbours"):
        weight = model.get_layer(layer).embeddings
        weight.assign(np.random.default_rng(len(layer)).standard_normal(weight.shape))
    vectors, neighbours = (
        model.get_layer(name).embeddings.numpy() for name in ("vectors", "neighbours")
    )
    expected = [vectors[9] @ neighbours[i] for i in (2, 2, 29)]
    np.testing.assert_allclose(model(np.array([[9, 2, 2, 29]]))[0], expected, rtol=1e-5)
