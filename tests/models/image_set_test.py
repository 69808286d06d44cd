"""The digits data set."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_datasets as tfds
from sklearn.datasets import load_digits

from models.digits import image_set


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("datasets")
    return folder, image_set.load("digits", str(folder))


def test_counts_and_ranges(digits):
    images = digits[1]
    assert len(images.train.images) == len(images.train.labels) == 1437
    assert len(images.test.images) == len(images.test.labels) == 360
    assert images.image_shape == (8, 8, 1) and images.num_classes == 10
    for split in (images.train, images.test):
        assert split.images.dtype == np.uint8 and split.images.max() == 255
        assert set(split.labels) == set(range(10))


def test_splits_together_are_the_images_of_scikit_learn(digits):
    def as_set(images, labels):
        rows = np.concatenate([images.reshape(len(images), -1), labels[:, None]], axis=1)
        return sorted(map(bytes, rows.astype(np.uint8)))

    images, bunch = digits[1], load_digits()
    both = [np.concatenate(parts) for parts in zip(*map(_arrays, (images.train, images.test)))]
    pixels = np.round(bunch.images / 16 * 255)
    assert as_set(*both) == as_set(pixels, bunch.target)


def _arrays(split):
    return split.images, split.labels


def test_second_load_reads_what_the_first_prepared(digits, monkeypatch):
    folder, first = digits

    def refuse(*_, **__):
        raise AssertionError("prepared twice")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", refuse)
    second = image_set.load("digits", str(folder))
    np.testing.assert_array_equal(first.train.images, second.train.images)
    np.testing.assert_array_equal(first.test.labels, second.test.labels)
