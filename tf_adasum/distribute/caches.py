"""What `cache()` keeps is one for all that reads a pipeline, on all ranks where it is a file.

TensorFlow deals files in front of a cache. It then holds the files of this rank, also for a
`predict` or a loop that needs all rows; or all of them, if somebody has read the whole before, as
`adapt` does, and then no file is dealt and every rank trains on every row.
"""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow.python.data.ops import cache_op

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_json
from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.data_order import file_readers, nodes
from tf_adasum.keras_hooks.core.guard import require_reads

require_reads(cache_op.CacheDataset, "__init__", "_filename")


def keeps_files(dataset: tf.data.Dataset) -> bool:
    """Whether a cache of a pipeline holds what the files have that are read before it."""
    return any(file_readers(cache) for cache in _caches(dataset))


def check_cache_files(dataset: tf.data.Dataset, communicator: Communicator) -> None:
    """Fails on all ranks alike where two of a host would write one cache at once.

    One of them would fail in TensorFlow, which then asks for the removal of a lock.

    Args:
        dataset: what ranks are going to read.
        communicator: the ranks; all must call it.

    Raises:
        ValueError: names the file and the ranks.
    """
    unwritten = [name for name in _cache_files(dataset) if not os.path.exists(f"{name}.index")]
    of_ranks = gather_json(list(map(os.path.abspath, unwritten)), communicator, "cache files")
    for ranks in communicator.hosts:
        for name in sorted({name for rank in ranks for name in of_ranks[rank]}):
            writers = [rank for rank in ranks if name in of_ranks[rank]]
            if len(writers) > 1:
                expected = "cache files of each rank's own, since ranks write them at once"
                received = f"cache({name!r}) on {communicator.in_words(*writers)}"
                advice = "Say cache(f'{path}.{tf_adasum.rank()}')."
                raise ValueError(refusal(expected, received, advice))


def _caches(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    return [node for node in nodes(dataset) if isinstance(node, cache_op.CacheDataset)]


def _cache_files(dataset: tf.data.Dataset) -> list[str]:
    names = [bytes(cache._filename.numpy()).decode() for cache in _caches(dataset)]
    return [name for name in names if name]
