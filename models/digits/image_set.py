"""Reads any tensorflow_datasets image set through one path, prepared once by one rank per host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow_datasets as tfds

import models.digits.dataset  # noqa: F401 (makes its name known)
from models.common import datasets


@dataclass(frozen=True)
class Split:
    """Labelled images in memory: uint8 [n, height, width, channels] and int64 [n]."""

    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class ImageSet:
    """A training and a test split, and the number of classes of their labels."""

    train: Split
    test: Split
    num_classes: int

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.train.images.shape[1:]


def load(name: str, folder: str | None = None) -> ImageSet:
    """Reads an image set; collective: one rank of each host prepares it where it is missing.

    Args:
        name: "digits" or a data set of tensorflow_datasets with the splits "train" and "test",
            an image and a label, all images of one size.
        folder: where prepared data sets lie; None: a folder in the user's cache.

    Returns:
        The `ImageSet`, the same on every rank.

    Raises:
        DatasetError: the name is unknown, or the data is neither prepared nor to be fetched.

    Example:
        >>> digits = load("digits")
        >>> len(digits.train.images), len(digits.test.images)
        (1437, 360)
    """
    builder = datasets.prepared(name, folder)
    datasets.check(builder, ["image", "label"], ["train", "test"])
    labels = builder.info.features["label"]
    return ImageSet(_split(builder, "train"), _split(builder, "test"), labels.num_classes)


def _split(builder: tfds.core.DatasetBuilder, name: str) -> Split:
    whole = builder.as_dataset(split=name, batch_size=-1, as_supervised=True, shuffle_files=False)
    images, labels = tfds.as_numpy(whole)
    return Split(images, labels.astype(np.int64))
