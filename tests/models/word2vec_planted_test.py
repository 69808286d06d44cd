"""The planted corpus: its analogies hold in the distribution, and the sentences follow it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from models.word2vec import analogies, planted
from models.word2vec.families import FAMILIES


@pytest.fixture(scope="module")
def neighbours():
    return planted.Neighbours()


def test_no_word_stands_in_two_places(neighbours):
    words = [word for word, _, _ in planted.members()] + neighbours.words
    assert len(words) == len(set(words))
    assert all(len(topic) == len(family.relations) for family in FAMILIES for topic in family[2])


def test_distributions_do_not_overlap_and_sum_to_one(neighbours):
    supports = [
        neighbours.by_topic.sum(axis=0) > 0,
        neighbours.by_relation.sum(axis=0) > 0,
        neighbours.by_none > 0,
    ]
    np.testing.assert_array_equal(np.sum(supports, axis=0), 1)
    for rows in (neighbours.by_topic, neighbours.by_relation, neighbours.by_none[None]):
        np.testing.assert_allclose(rows.sum(axis=1), 1)


def test_analogies_are_exact_in_the_logarithms_of_the_distribution(neighbours):
    """And there 3CosAdd answers all: what vectors of a smaller dimension miss, they miss."""
    members = planted.members()
    logs = np.log([neighbours.probabilities(t, r) for _, t, r in members])
    vocabulary = [word for word, _, _ in members]
    questions = analogies.known(analogies.of_families(), vocabulary)
    a, b, c, d = logs[questions.T]
    np.testing.assert_allclose(b - a + c, d, atol=1e-9)
    assert analogies.accuracy(logs - logs.mean(axis=0), questions) == 1


def test_sentences_follow_the_distribution():
    """Counts of neighbours of one relation's words, beside what is expected, by chi-squared."""
    neighbours, members = planted.Neighbours(), planted.members()
    numbers = {word: i for i, word in enumerate(neighbours.words)}
    counts = {word: np.zeros(len(numbers)) for word, _, _ in members}
    for sentence in planted.sentences(20_000, seed=5):
        (word,) = (word for word in sentence if word in counts)
        for other in sentence:
            if other != word:
                counts[word][numbers[other]] += 1
    total = sum(counts.values())
    mean = sum(neighbours.probabilities(t, r) for _, t, r in members) / len(members)
    assert _chi_squared(total, mean) < 1.3
    for relation in range(5):
        of_relation = [(word, t) for word, t, r in members if r == relation]
        found = sum(counts[word] for word, _ in of_relation)
        expected = np.mean([neighbours.probabilities(t, relation) for _, t in of_relation], axis=0)
        assert _chi_squared(found, expected) < 1.3
        assert _chi_squared(found, mean) > 3, "the words of the other relations are told from it"


def _chi_squared(counts, probabilities):
    """Per degree of freedom; about 1 if the counts follow, with cells of at least 5."""
    expected = counts.sum() * probabilities
    is_large = expected >= 5
    values = (counts[is_large] - expected[is_large]) ** 2 / expected[is_large]
    return values.sum() / (is_large.sum() - 1)


def test_sentences_depend_on_the_seed_only():
    def words(seed):
        return Counter(tuple(sentence) for sentence in planted.sentences(50, seed))

    assert words(1) == words(1) != words(2)
