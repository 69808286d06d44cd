"""Data sets of two classes that are at hand everywhere, and how they are dealt to the ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from models.svm.rows import Matrix

NAMES = ("generated", "generated_sparse", "digits", "shifted_digits", "breast_cancer")
_TEST_SHARE = 0.2
_BRIGHTEST = 16
# About the most frequent mistake of a classifier of digits.
_DIGIT = 8


class Data(NamedTuple):
    """Samples for training and testing; labels are 1 and -1."""

    samples: Matrix
    labels: np.ndarray
    test_samples: Matrix
    test_labels: np.ndarray


class Share(NamedTuple):
    """What one rank has of the samples for training, and their numbers in the whole."""

    samples: Matrix
    labels: np.ndarray
    numbers: np.ndarray


def load(name: str, number: int, seed: int = 0) -> Data:
    """Makes or reads a data set; the same one on every rank.

    Args:
        name: "generated": clusters in 40 dimensions, 2 % of the labels wrong; "generated_sparse":
            bags of words of two topics; "digits": scikit-learn's, 8 against the others;
            "shifted_digits": the images for training also in the 8 displacements by a pixel, and
            those for testing as they are; "breast_cancer": scikit-learn's, standardised.
        number: of samples, of which a fifth is for testing; for what is generated.
        seed: of what is generated, and of the split.
    """
    samples, labels = _whole(name, number, seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    first = int(len(labels) * _TEST_SHARE)
    test, train = order[:first], order[first:]
    data = Data(samples[train], labels[train], samples[test], labels[test])
    if name == "shifted_digits":
        return data._replace(samples=_shifted(data.samples), labels=np.tile(data.labels, 9))
    if name == "breast_cancer":
        mean, deviation = data.samples.mean(axis=0), data.samples.std(axis=0)
        test_samples = (data.test_samples - mean) / deviation
        return data._replace(samples=(data.samples - mean) / deviation, test_samples=test_samples)
    return data


def share(data: Data, rank: int, size: int) -> Share:
    """Deals the samples for training like cards: rank r has r, r + size, r + 2 size, ...

    Example:
        >>> share(load("breast_cancer", 0), rank=1, size=4).numbers[:3].tolist()
        [1, 5, 9]
    """
    numbers = np.arange(rank, len(data.labels), size)
    return Share(data.samples[numbers], data.labels[numbers], numbers)


def scale_gamma(samples: Matrix) -> float:
    """1 / (d variance of all values), the usual γ where nobody has a better one."""
    if sparse.issparse(samples):
        variance = samples.multiply(samples).mean() - samples.mean() ** 2
    else:
        variance = samples.var()
    return float(1 / (samples.shape[1] * variance))


def _whole(name: str, number: int, seed: int) -> tuple[Matrix, np.ndarray]:
    # scikit-learn takes a second to import.
    from sklearn import datasets

    if name == "generated":
        samples, classes = datasets.make_classification(
            number,
            n_features=40,
            n_informative=15,
            n_clusters_per_class=4,
            flip_y=0.02,
            random_state=seed,
        )
        return samples, np.where(classes == 1, 1, -1)
    if name == "generated_sparse":
        return _bags_of_words(number, seed)
    if name == "breast_cancer":
        samples, classes = datasets.load_breast_cancer(return_X_y=True)
        return samples, np.where(classes == 1, 1, -1)
    samples, classes = datasets.load_digits(return_X_y=True)
    return samples / _BRIGHTEST, np.where(classes == _DIGIT, 1, -1)


def _bags_of_words(number: int, seed: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Texts of 60 words of 5,000; the topics' words differ, but most words belong to neither."""
    words, length, share_of_topic = 5_000, 60, 0.2
    random = np.random.default_rng(seed)
    labels = random.choice([-1, 1], number)
    # Frequent words are frequent as in a language: the r-th as 1 / r.
    common = np.floor(words ** random.random((number, length))).astype(np.int64) - 1
    of_topic = 2 * (common // 2) + (labels > 0)[:, None]
    chosen = np.where(random.random((number, length)) < share_of_topic, of_topic, common)
    rows = np.repeat(np.arange(number), length)
    ones = np.full(number * length, length**-0.5)
    counts = sparse.csr_matrix((ones, (rows, chosen.ravel())), (number, words))
    counts.sum_duplicates()
    return counts, labels


def _shifted(samples: np.ndarray) -> np.ndarray:
    images = np.pad(samples.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = [images[:, y : y + 8, x : x + 8] for y in range(3) for x in range(3)]
    return np.concatenate(moved).reshape(-1, 64)
