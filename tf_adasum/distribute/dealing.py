"""Whether ranks are dealt files of a `tf.data` pipeline, or rows of each batch.

TensorFlow deals files where a pipeline reads some, and fails at the first batch where a rank gets
none: MNIST of TensorFlow Datasets has one file.
"""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.distribute.data_order import file_readers

_Policy = tf.data.experimental.AutoShardPolicy


def is_dealt(dataset: tf.data.Dataset) -> bool:
    """Whether ranks are dealt parts of it; each reads the whole where its policy is OFF."""
    return dataset.options().experimental_distribute.auto_shard_policy != _Policy.OFF


def dealt_by_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same data, of which every rank reads all files and takes its part of each batch."""
    if dataset.options().experimental_distribute.auto_shard_policy not in (
        _Policy.AUTO,
        _Policy.FILE,
    ):
        return dataset
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = _Policy.DATA
    return dataset.with_options(options)


def dealt_by_rows_if_files_are_few(
    dataset: tf.data.Dataset, communicator: Communicator
) -> tf.data.Dataset:
    """The same data, dealt by rows where TensorFlow may choose and a rank would get no file.

    Args:
        dataset: what TensorFlow is going to shard; AutoShardPolicy.FILE is left alone.
        communicator: the ranks that it is sharded over; all must call it.
    """
    if dataset.options().experimental_distribute.auto_shard_policy != _Policy.AUTO:
        return dataset
    readers = file_readers(dataset)
    if not readers:
        return dataset
    is_few = any(_has_less_than(communicator.size, reader) for reader in readers)
    # One answer for all: ranks may see unlike folders.
    answers = gather_bytes(bytes([is_few]), communicator, "whether files are fewer than ranks")
    return dealt_by_rows(dataset) if any(map(any, answers)) else dataset


def _has_less_than(number: int, reader: tf.data.Dataset) -> bool:
    counts = [files.take(number).reduce(0, lambda sum_, _: sum_ + 1) for files in reader._inputs()]
    return any(int(count) < number for count in counts)
