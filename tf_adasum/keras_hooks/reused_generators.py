"""A generator that several calls are given goes on at one place on all ranks.

tf.data reads ahead, and what it has read is lost when a call ends, as in plain Keras. How much that
is differs between ranks, and in the next call they would take their shares of unlike batches. So
all go on where the rank does that has read furthest.
"""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter

from tf_adasum.keras_hooks import ended_iterators
from tf_adasum.keras_hooks.guard import require_hooks, require_reads

require_hooks(GeneratorDataAdapter, "__init__")
require_reads(GeneratorDataAdapter.__init__, "_first_batches", "generator")


class _Count:
    """How many batches of a generator were read, in all calls."""

    read = 0


_counts: weakref.WeakKeyDictionary[Generator, _Count] = weakref.WeakKeyDictionary()


class _Batches:
    """The batches of a generator that are left; `begin` of them were read before this call."""

    def __init__(self, generator: Generator):
        self._generator = generator
        self._count = _counts.setdefault(generator, _Count())
        self.begin = self._count.read

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._generator)
        self._count.read += 1
        return batch


def install() -> None:
    """Lets `GeneratorDataAdapter` wait until no earlier call reads its generator, and count."""
    original = GeneratorDataAdapter.__init__

    @functools.wraps(original)
    def make(self, generator):
        if isinstance(generator, types.GeneratorType):
            ended_iterators.wait()
            generator = self._adasum_batches = _Batches(generator)
        original(self, generator)

    GeneratorDataAdapter.__init__ = make


def place(adapter: DataAdapter) -> int:
    """How many batches of the data earlier calls have read; 0 for what is no generator."""
    batches = getattr(adapter, "_adasum_batches", None)
    return 0 if batches is None else batches.begin


def go_on(adapter: DataAdapter, places: Sequence[int]) -> None:
    """Leaves out what another rank has read already.

    Args:
        adapter: nothing was taken from its data.
        places: of all ranks.
    """
    batches = getattr(adapter, "_adasum_batches", None)
    if batches is None or len(set(places)) == 1:
        return
    num_lost = max(places) - batches.begin
    left = itertools.islice(itertools.chain(adapter._first_batches, batches), num_lost, None)
    # On all ranks, so that they also do alike if Keras asks for another iterator.
    adapter.generator = lambda: left
