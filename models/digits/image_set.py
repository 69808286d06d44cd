"""Reads any tensorflow_datasets image set through one path, prepared once by one rank per host."""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow_datasets as tfds

import tf_adasum
from models.digits import dataset

DEFAULT_FOLDER = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tf_adasum", "datasets"
)
# Where tensorflow_datasets and most of its sources keep their files.
_PROBE_URL = "https://storage.googleapis.com"
_PROBE_SECONDS = 5


class ImageSetError(Exception):
    """One line: what was asked for, why it is not to be had, what to do."""


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
        ImageSetError: the name is unknown, or the data is neither prepared nor to be fetched.

    Example:
        >>> digits = load("digits")
        >>> len(digits.train.images), len(digits.test.images)
        (1437, 360)
    """
    builder = _builder(name, folder or DEFAULT_FOLDER)
    if tf_adasum.local_rank() == 0 and not _is_prepared(builder):
        _prepare(builder, name)
    # The other ranks wait here, at most TF_ADASUM_TIMEOUT_SECONDS.
    tf_adasum.allreduce(np.zeros(1, np.float32), "sum", name=f"{name} is prepared")
    builder = _builder(name, folder or DEFAULT_FOLDER)
    labels = builder.info.features["label"]
    return ImageSet(_split(builder, "train"), _split(builder, "test"), labels.num_classes)


def _builder(name: str, folder: str) -> tfds.core.DatasetBuilder:
    try:
        return tfds.builder(name, data_dir=folder)
    except tfds.core.DatasetNotFoundError:
        raise ImageSetError(
            "--dataset: expected digits or an image set of tensorflow_datasets, such as mnist. "
            f"Received: {name!r}."
        ) from None


def _is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    return (builder.data_path / "dataset_info.json").exists()


def _prepare(builder: tfds.core.DatasetBuilder, name: str) -> None:
    """Writes the data set into its folder; a half-written one never gets its final name."""
    at_hand = isinstance(builder, dataset.Digits)
    if not at_hand and not _network_is_there():
        # tensorflow_datasets itself would try again and again for minutes.
        raise ImageSetError(
            f"--dataset={name} is not prepared in {builder.data_path} and {_PROBE_URL} does not "
            f"answer within {_PROBE_SECONDS} s: prepare it where there is a network and name the "
            "folder with --data_dir, or use --dataset=digits."
        )
    # Nothing is said about the second that it takes to write what is at hand.
    speaks = tf_adasum.rank() == 0 and not at_hand
    tfds.display_progress_bar(speaks)
    try:
        with contextlib.nullcontext() if speaks else _silent_stdout():
            builder.download_and_prepare()
    except Exception:
        # On a shared file system another host's rank may have been first.
        if not _is_prepared(_builder(name, builder.data_path.parents[1])):
            raise


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _network_is_there() -> bool:
    answered = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(_PROBE_URL, timeout=_PROBE_SECONDS).close()
        except urllib.error.HTTPError:
            pass  # an answer all the same
        except OSError:
            return
        answered.set()

    # In a thread, because the look-up of a name knows no time limit.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    return answered.is_set()


def _split(builder: tfds.core.DatasetBuilder, name: str) -> Split:
    whole = builder.as_dataset(split=name, batch_size=-1, as_supervised=True, shuffle_files=False)
    images, labels = tfds.as_numpy(whole)
    return Split(images, labels.astype(np.int64))
