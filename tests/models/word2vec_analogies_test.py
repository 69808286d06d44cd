"""The analogy measure beside one written plainly, and which questions there are."""

from __future__ import annotations

import numpy as np
import pytest

from models.word2vec import analogies
from models.word2vec.families import FAMILIES


def _accuracy(vectors, questions):
    """The reference: one question and one word after the other."""
    units = [vector / np.sqrt(vector @ vector) for vector in vectors]
    right = 0
    for a, b, c, d in questions:
        target = units[b] - units[a] + units[c]
        scores = {word: units[word] @ target for word in range(len(units)) if word not in (a, b, c)}
        right += max(scores, key=scores.get) == d
    return right / len(questions)


def test_accuracy_is_that_of_the_reference():
    """Vectors between noise and exact analogies, more questions than are asked at once."""
    random = np.random.default_rng(3)
    words, relations = 40, 2
    topics = random.standard_normal((words, 6))
    vectors = np.repeat(topics, relations, axis=0)
    vectors[1::2] += random.standard_normal(6)
    vectors += 0.5 * random.standard_normal(vectors.shape)
    one, other = random.integers(words, size=(2, 1_300))
    one, other = (2 * part[one != other] for part in (one, other))
    questions = np.stack([one, one + 1, other, other + 1], axis=1)
    assert len(questions) > 2 * 512
    share = analogies.accuracy(vectors.astype(np.float32), questions)
    assert 0.2 < share < 0.9
    assert share == pytest.approx(_accuracy(vectors, questions), abs=2e-3)


def test_what_is_given_is_no_answer():
    """b - a + c is nearest to c itself, and then to d."""
    vectors = np.array([[1, 0, 0.1], [1, 0, 0], [0, 1, 0.1], [0, 1, 0]])
    assert analogies.accuracy(vectors, np.array([[0, 1, 2, 3]])) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_diverged_answers_nothing(value):
    vectors = np.eye(4)
    vectors[0, 0] = value
    assert analogies.accuracy(vectors, np.array([[0, 1, 2, 3]])) == 0


def test_nearest_words_come_first():
    vectors = np.array([[1, 0], [0, 1], [2, 0.1], [1, 1]])
    assert analogies.nearest(vectors, 0, 3) == [2, 3, 1]


def test_questions_of_families():
    questions = analogies.of_families()
    assert ("london", "england", "paris", "france") in questions
    assert ("value", "values", "name", "names") in questions
    counts = [len(f.topics) * (len(f.topics) - 1) * len(f[1]) * (len(f[1]) - 1) for f in FAMILIES]
    assert len(questions) == len(set(questions)) == sum(counts)


def test_no_word_is_in_questions_of_both_parts():
    words = [{w for q in analogies.of_families(part) for w in q} for part in analogies.PARTS]
    assert not words[0] & words[1]
    assert words[0] | words[1] == {w for q in analogies.of_families() for w in q}


def test_questions_of_a_file(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(": capitals\nAthens Greece Oslo Norway\n\nAthens Greece Rome Italy\n")
    questions = analogies.read(str(path))
    assert questions[0] == ("athens", "greece", "oslo", "norway")
    vocabulary = ["oslo", "greece", "norway", "athens"]
    np.testing.assert_array_equal(analogies.known(questions, vocabulary), [[3, 1, 0, 2]])
    assert analogies.known(questions, ["oslo"]).shape == (0, 4)
