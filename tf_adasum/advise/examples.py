"""A few batches of what `fit` would train on, each rank its own part, as they are measured."""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any, NamedTuple

import tensorflow as tf
from keras.src.trainers import epoch_iterator
from keras.src.trainers.epoch_iterator import EpochIterator

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(epoch_iterator, "data_adapters")
require_reads(EpochIterator, "__init__", "data_adapter")


class Examples(NamedTuple):
    """Batches of equally many examples.

    Attributes:
        whole: one batch as the dataset has it, for all ranks of a strategy.
        own: batches of this rank's share.
        rows: examples of each of `own`; 0 where there are none.
        seconds: what drawing a batch took, in the mean of all but the first one.
    """

    whole: Any
    own: list[Any]
    rows: int
    seconds: float


def draw(given: dict[str, Any], part: int, parts: int, number: int) -> Examples:
    """Draws batches as `fit` does, without any strategy's sharding.

    Args:
        given: arguments of `fit` by name: x, and y, batch_size, sample_weight, class_weight if any.
        part: which part of each batch is this rank's.
        parts: how many ranks share a batch.
        number: of batches, at most; one of other length than the first one is left out.

    Returns:
        The examples; none where the dataset has none.

    Raises:
        ValueError: as `fit`, for data that is none.
    """
    if isinstance(given["x"], tf.distribute.DistributedDataset):
        raise ValueError("a dataset that is distributed already; pass it as it was before")
    names = ("x", "y", "batch_size", "sample_weight", "class_weight")
    chosen = {name: given[name] for name in names if given.get(name) is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shuffle=True is for arrays, others ignore it
        iterator = EpochIterator(**{"x": None, **chosen}, shuffle=given.get("shuffle", True))
    data = iterator.data_adapter.get_tf_dataset()
    drawn = iter(data)
    batches = list(itertools.islice(drawn, 1))
    begin = time.perf_counter()
    batches += itertools.islice(drawn, number - 1)
    seconds = (time.perf_counter() - begin) / max(len(batches) - 1, 1)
    if not batches:
        return Examples(None, [], 0, seconds)
    total = _rows(batches[0])
    rows = total // parts
    if rows == 0:
        return Examples(batches[0], [], 0, seconds)
    alike = [batch for batch in batches if _rows(batch) == total]
    own = [divided(batch, rows)[part] for batch in alike]
    return Examples(batches[0], own, rows, seconds)


def divided(batch: Any, rows: int) -> list[Any]:
    """Cuts a batch into batches of `rows` examples; what is left over is dropped."""
    return list(tf.data.Dataset.from_tensors(batch).rebatch(rows, drop_remainder=True))


def repeated(batch: Any) -> tf.data.Dataset:
    """The same batch for ever: nothing is read while steps are timed."""
    return tf.data.Dataset.from_tensors(batch).repeat()


def _rows(batch: Any) -> int:
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return int(first.nrows())
    return int(first.dense_shape[0] if isinstance(first, tf.SparseTensor) else first.shape[0])
