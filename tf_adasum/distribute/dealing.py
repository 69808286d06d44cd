"""Whether ranks are dealt files of a `tf.data` pipeline, or rows of each batch.

TensorFlow deals files where a pipeline reads some, and fails at the first batch where a rank gets
none: MNIST of TensorFlow Datasets has one file. Behind a cache it deals what the cache happens to
hold. What counts rows behind the files, such as take(n), would count those of each rank, and what
joins files with other data would join one rank's files with all of them.
"""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.caches import keeps_files
from tf_adasum.distribute.data_order import file_readers, inputs_of, nodes, policy_of

_Policy = tf.data.experimental.AutoShardPolicy
# In names of classes of TensorFlow: take, take_while, skip, shard.
_COUNTING = ("TakeDataset", "TakeWhileDataset", "SkipDataset", "ShardDataset")


def is_dealt(dataset: tf.data.Dataset) -> bool:
    """Whether ranks are dealt parts of it; each reads the whole where its policy is OFF."""
    return policy_of(dataset) != _Policy.OFF


def dealt_by_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same data, of which every rank reads all files and takes its part of each batch."""
    if policy_of(dataset) not in (_Policy.AUTO, _Policy.FILE):
        return dataset
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = _Policy.DATA
    return dataset.with_options(options)


def dealt_by_rows_in_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `dealt_by_rows`, for all rows of the data.

    Raises:
        ValueError: ranks are dealt files by the program's own policy, and a cache may hold them.
    """
    if policy_of(dataset) == _Policy.FILE and keeps_files(dataset):
        expected = "data of which every rank can read all rows, to predict them in their order"
        received = "AutoShardPolicy.FILE and a cache() behind files, which holds one rank's"
        advice = "Leave the policy at AUTO, or predict from a pipeline without cache()."
        raise ValueError(refusal(expected, received, advice))
    return dealt_by_rows(dataset)


def deals_files(dataset: tf.data.Dataset) -> bool:
    """Whether TensorFlow deals ranks files, of which one may have more rows than another."""
    by_files = policy_of(dataset) in (_Policy.AUTO, _Policy.FILE)
    return by_files and bool(file_readers(dataset))


def dealt_by_rows_if_need_be(
    dataset: tf.data.Dataset, communicator: Communicator
) -> tf.data.Dataset:
    """The same data, dealt by rows where TensorFlow may choose and files would not do.

    They would not where a rank would get none, where a cache keeps what they hold, and where rows
    are counted behind them, or joined with other data.

    Args:
        dataset: what TensorFlow is going to shard; AutoShardPolicy.FILE is left alone.
        communicator: the ranks that it is sharded over; all must call it.
    """
    if policy_of(dataset) != _Policy.AUTO:
        return dataset
    readers = file_readers(dataset)
    if not readers:
        return dataset
    would_not_do = (
        keeps_files(dataset)
        or any(_counts_rows(node) or _joins_other_data(node) for node in nodes(dataset))
        or any(_has_less_than(communicator.size, reader) for reader in readers)
    )
    # One answer for all: ranks may see unlike folders.
    answers = gather_bytes(bytes([would_not_do]), communicator, "whether files can be dealt")
    return dealt_by_rows(dataset) if any(map(any, answers)) else dataset


def _has_less_than(number: int, reader: tf.data.Dataset) -> bool:
    sources = inputs_of(reader)
    counts = [files.take(number).reduce(0, lambda sum_, _: sum_ + 1) for files in sources]
    return any(int(count) < number for count in counts)


def _counts_rows(node: tf.data.Dataset) -> bool:
    """Whether it leaves out rows of files by their number in the data."""
    name = type(node).__name__
    return any(what in name for what in _COUNTING) and bool(file_readers(node))


def _joins_other_data(node: tf.data.Dataset) -> bool:
    """Whether it puts what files hold beside what none holds: zip, concatenate, sample_from."""
    has_files = [bool(file_readers(each)) for each in node._inputs()]
    return any(has_files) and not all(has_files)
