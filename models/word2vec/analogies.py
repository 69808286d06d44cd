"""Analogies, "london is to england as paris is to ...", and the share that vectors answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.word2vec.families import FAMILIES, Family

PARTS = ("validation", "test")
# Questions that are answered at once: a score for each word of the vocabulary and question.
_AT_ONCE = 512

Question = tuple[str, str, str, str]


def of_families(part: str | None = None, families: tuple[Family, ...] = FAMILIES) -> list[Question]:
    """All analogies of two topics of one family and two of its relations.

    Args:
        part: "validation" or "test": those between the topics of even, or of odd, number in their
            family, so that no word is in questions of both; None: all.
        families: whose.

    Returns:
        Questions (a, b, c, d): a is to b as c is to d.
    """
    found = []
    for family in families:
        topics = family.topics if part is None else family.topics[PARTS.index(part) :: 2]
        relations = range(len(family.relations))
        found += [
            (one[r], one[s], other[r], other[s])
            for one in topics
            for other in topics
            for r in relations
            for s in relations
            if one != other and r != s
        ]
    return found


def read(path: str) -> list[Question]:
    """Reads a file of questions, four words a line; lines of another form, as ": title", are left.

    Source of the form: questions-words.txt of T. Mikolov et al., "Efficient Estimation of Word
    Representations in Vector Space", 2013.
    """
    lines = Path(path).read_text(encoding="utf-8").lower().splitlines()
    return [tuple(line.split()) for line in lines if len(line.split()) == 4]


def known(questions: Sequence[Question], vocabulary: Sequence[str]) -> np.ndarray:
    """The questions all of whose words are known, as numbers of words, int [n, 4]."""
    numbers = {word: i for i, word in enumerate(vocabulary)}
    rows = [[numbers[word] for word in q] for q in questions if all(word in numbers for word in q)]
    return np.array(rows, np.int64).reshape(-1, 4)


def accuracy(vectors: np.ndarray, questions: np.ndarray) -> float:
    """Share of the questions whose fourth word is nearest, by cosine, to b - a + c.

    Nearest among all words but a, b and c; all vectors are taken at length 1 first.

    Args:
        vectors: of the vocabulary's words, [words, dimension].
        questions: numbers of words, int [n, 4]; n > 0.

    Returns:
        The share; 0 where the vectors are not finite.
    """
    if not np.isfinite(vectors).all():
        return 0.0
    units = _units(vectors)
    right = 0
    for start in range(0, len(questions), _AT_ONCE):
        a, b, c, d = questions[start : start + _AT_ONCE].T
        scores = (units[b] - units[a] + units[c]) @ units.T
        rows = np.arange(len(a))
        for given in (a, b, c):
            scores[rows, given] = -np.inf
        right += int(np.sum(scores.argmax(axis=1) == d))
    return right / len(questions)


def nearest(vectors: np.ndarray, word: int, number: int) -> list[int]:
    """The words nearest to one by cosine, without itself, the nearest first."""
    units = _units(vectors)
    scores = units @ units[word]
    scores[word] = -np.inf
    return np.argsort(-scores)[:number].tolist()


def _units(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)
