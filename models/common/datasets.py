"""Data sets of tensorflow_datasets, prepared once by one rank of each host."""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow_datasets as tfds
from absl import flags

import tf_adasum

DEFAULT_FOLDER = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tf_adasum", "datasets"
)
flags.DEFINE_string("data_dir", DEFAULT_FOLDER, "Folder of prepared data sets.")

# Where tensorflow_datasets and most of its sources keep their files.
_PROBE_URL = "https://storage.googleapis.com"
_PROBE_SECONDS = 5


class DatasetError(ValueError):
    """One line: what was asked for, why it is not to be had, what to do."""


def prepared(name: str, folder: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a data set that lies ready on this host; collective.

    One rank of each host prepares it where it is missing; the others wait, at most
    TF_ADASUM_TIMEOUT_SECONDS.

    Args:
        name: a data set of tensorflow_datasets, e.g. "mnist" or "lm1b/subwords8k", or one of
            `models/`, whose builder has been imported.
        folder: where prepared data sets lie; None: a folder in the user's cache.

    Raises:
        DatasetError: the name is unknown, or the data is neither prepared nor to be fetched: of
            that a rank that prepares it says why, and the others that one did.

    Example:
        >>> import models.digits.dataset  # makes the name known
        >>> digits = prepared("digits").as_dataset(split="train")
    """
    builder = _builder(name, folder or DEFAULT_FOLDER)
    problem = None
    if tf_adasum.local_rank() == 0 and not _is_prepared(builder):
        try:
            _prepare(builder, name)
        except Exception as error:
            problem = error  # once the others, which wait, have heard of it
    failed = np.array([problem is not None], np.float32)
    failed = tf_adasum.allreduce(failed, "sum", name=f"{name} is prepared")
    if problem is not None:
        raise problem
    if failed[0] > 0:
        raise DatasetError(f"another rank could not prepare the data set {name}, and says why.")
    return _builder(name, folder or DEFAULT_FOLDER)


def check(
    builder: tfds.core.DatasetBuilder, features: Sequence[str], splits: Sequence[str]
) -> None:
    """Looks before a training whether a data set has what it needs.

    Args:
        builder: a prepared data set of tensorflow_datasets.
        features: names, e.g. "text".
        splits: as tensorflow_datasets reads them, e.g. "train[:10%]".

    Raises:
        DatasetError: there is no such feature, or no such split.
    """
    name, known = builder.info.full_name, builder.info.features
    missing = [feature for feature in features if feature not in known]
    if missing:
        raise DatasetError(
            f"expected a data set with {' and '.join(map(repr, features))}. "
            f"Received: {name}, which has {' and '.join(map(repr, known))}."
        )
    for split in splits:
        try:
            builder.info.splits[split]
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise DatasetError(
                f"expected a split of {name}. Received: {split!r}: {reason}"
            ) from None


def _builder(name: str, folder: str) -> tfds.core.DatasetBuilder:
    try:
        return tfds.builder(name, data_dir=folder)
    except tfds.core.DatasetNotFoundError:
        raise DatasetError(
            f"expected a data set of tensorflow_datasets or of models/. Received: {name!r}."
        ) from None


def _is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    return (builder.data_path / "dataset_info.json").exists()


def _prepare(builder: tfds.core.DatasetBuilder, name: str) -> None:
    """Writes the data set into its folder; a half-written one never gets its final name."""
    at_hand = type(builder).__module__.startswith("models.")
    if not at_hand and not _network_is_there():
        # tensorflow_datasets itself would try again and again for minutes.
        raise DatasetError(
            f"the data set {name} is not prepared in {builder.data_path} and {_PROBE_URL} does not "
            f"answer within {_PROBE_SECONDS} s: prepare it where there is a network and name the "
            "folder with --data_dir, or use the data that is at hand (--help)."
        )
    # Nothing is said about the second that it takes to write what is at hand.
    speaks = tf_adasum.rank() == 0 and not at_hand
    tfds.display_progress_bar(speaks)
    try:
        with contextlib.nullcontext() if speaks else _silent_stdout():
            builder.download_and_prepare()
    except Exception as error:
        # On a shared file system another host's rank may have been first.
        if _is_prepared(_builder(name, builder.data_path.parents[1])):
            return
        if isinstance(error, OSError):
            # A connection that broke is an OSError too, and is about no file.
            advice = " Name a folder that can be written to with --data_dir."
            raise DatasetError(
                f"expected to prepare the data set {name} in {builder.data_path}. Received: "
                f"{error}.{advice if error.filename else ''}"
            ) from error
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
