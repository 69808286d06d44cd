"""A text as numbers of words."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from models.common.datasets import DatasetError

# Words of letters and digits, with hyphens within; the rest is no word.
_WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Corpus(NamedTuple):
    """A text.

    Args:
        words: the number of each word in the vocabulary, int32 [n].
        sentences: the number of the text that each word is of, int32 [n]; none has a neighbour
            in another.
        vocabulary: the words by falling count.
        counts: of each, int64 [len(vocabulary)].
    """

    words: np.ndarray
    sentences: np.ndarray
    vocabulary: list[str]
    counts: np.ndarray


def read(texts: Iterable[str], min_count: int) -> Corpus:
    """Splits texts into words, in small letters, and numbers those that are frequent enough.

    Args:
        texts: e.g. sentences, or articles.
        min_count: rarer words are left out, so that their neighbours become each other's.

    Raises:
        DatasetError: no word is frequent enough.
    """
    first_numbers: dict[str, int] = {}
    words, ends = array("i"), array("q")
    for text in texts:
        found = _WORD.findall(text.lower())
        words.extend([first_numbers.setdefault(word, len(first_numbers)) for word in found])
        ends.append(len(words))
    tokens = np.frombuffer(words, np.int32) if words else np.zeros(0, np.int32)
    counts = np.bincount(tokens, minlength=len(first_numbers))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= min_count]
    if not len(order):
        raise DatasetError(
            f"expected a text in which a word occurs {min_count} times. "
            f"Received: {len(tokens)} words, the most frequent {counts.max(initial=0)} times."
        )
    new_numbers = np.full(len(first_numbers), -1, np.int32)
    new_numbers[order] = np.arange(len(order))
    numbered = new_numbers[tokens]
    sentences = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends, prepend=0))
    is_kept = numbered >= 0
    names = list(first_numbers)
    return Corpus(numbered[is_kept], sentences[is_kept], [names[i] for i in order], counts[order])


def texts_of(builder: tfds.core.DatasetBuilder, split: str) -> Iterable[str]:
    """The feature "text" of a data set's split, in the order of its files."""
    data = builder.as_dataset(split=split, shuffle_files=False).map(lambda row: row["text"])
    return (text.decode() for text in tfds.as_numpy(data))
