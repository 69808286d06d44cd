"""Ranks that are given unlike arrays hear of it: each takes its share of every batch of its own.

Rows that one rank alone has are then in no share, or in several: where a program takes
`x[rank::size]`, or shuffles and splits arrays by a seed of its own on each rank. So are rows of
the same arrays where ranks make unlike batches of them.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import keras
import numpy as np
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import first_unlike, gather_bytes
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import peers_of
from tf_adasum.keras_hooks.core.said_once import SaidOnce
from tf_adasum.keras_hooks.data import first_batches

require_hooks(TFEpochIterator, "__init__")

_said = SaidOnce()

_OTHER_ARRAYS = (
    "%s: %s was given other arrays than %s. Each rank takes its share of every batch from its own, "
    "so that rows of all others are left out, or come twice. Give all ranks the same arrays (seed "
    "what shuffles or splits them), or rows of their own as tf.data with AutoShardPolicy.OFF."
)
_OTHER_BATCHES = (
    "%s: %s begins with batches of other rows than %s. Each rank takes its share of every batch of "
    "its own, so that some rows are left out, and others come twice. Seed what orders them alike "
    "on all ranks (keras.utils.set_random_seed(1), numpy.random.seed(1)). Where a program draws "
    "its targets by chance, this is as it should be."
)
_OTHER_SIZES = (
    "%s: %s was given batch_size=%s, and %s batch_size=%s. Each rank takes its share of every "
    "batch of its own size, so that some rows are left out, and others come twice. Give all ranks "
    "the batch size of all together; AdasumStrategy(batch_share=) gives ranks unlike parts of it."
)


def install() -> None:
    """Lets `fit`, `evaluate` and `predict` compare a few rows of what they are given.

    Those of arrays, and of the first batches that a `PyDataset` or a generator makes.
    """
    first_batches.install()
    original = TFEpochIterator.__init__

    @functools.wraps(original)
    def make_and_compare(self, distribute_strategy=None, *args, **kwargs):
        with first_batches.noted() as batches:
            original(self, distribute_strategy, *args, **kwargs)
        peers = peers_of(distribute_strategy)
        call = calls.current()
        if peers is None or call is None or call.in_turn:
            return
        are_arrays = isinstance(self.data_adapter, ArrayDataAdapter)
        # As Keras has it, which takes one where the program says none.
        batch_size = self.data_adapter.batch_size if are_arrays else None
        if are_arrays:
            data = [kwargs.get(name) for name in ("x", "y", "sample_weight")]
        else:
            data = first_batches.compared(batches)
        _compare(call, are_arrays, data, batch_size, peers)

    TFEpochIterator.__init__ = make_and_compare


def _compare(
    call: calls.Call,
    are_arrays: bool,
    data: list,
    batch_size: int | None,
    communicator: Communicator,
) -> None:
    own = f"{digest_of_rows(data)} {batch_size}".encode()
    given = gather_bytes(own, communicator, "digests of the arrays of a call")
    digests, sizes = zip(*(each.decode().split() for each in given))
    if communicator.rank > 0:
        return
    name_of = communicator.in_words
    if rank := first_unlike(digests):
        message = _OTHER_ARRAYS if are_arrays else _OTHER_BATCHES
        told = (call.name, name_of(rank), name_of(0))
    elif rank := first_unlike(sizes):
        message = _OTHER_SIZES
        told = (call.name, name_of(rank), sizes[rank], name_of(0), sizes[0])
    else:
        return
    _said.warn(call.model, message % told)  # a program may call `predict` for every row


def digest_of_rows(data: Any) -> int:
    """A number that depends on shapes, dtypes and the first, middle and last row of arrays."""
    found = 0
    for leaf in keras.tree.flatten(data):
        found = zlib.crc32(_sample(leaf), found)
    return found


def _sample(leaf: Any) -> bytes:
    shape = tuple(getattr(leaf, "shape", None) or ())
    length = shape[0] if shape else 0
    try:
        places = sorted({0, length // 2, length - 1} if length else ())
        values = [np.asarray(leaf[place : place + 1]) for place in places]
    except Exception:
        values = []
    parts = [repr(v.tolist()).encode() if v.dtype.hasobject else v.tobytes() for v in values]
    return repr((type(leaf).__name__, shape)).encode() + b"".join(parts)
