"""A generator that several calls are given, or several validations, has one reader at a time.

tf.data reads ahead, and what it has read is lost where an iterator ends, as in plain Keras. It ends
in the background (`ended_iterators`): it must not read on meanwhile, nor meet the next one in the
program's code. How far it has read differs between ranks, which would go on at unlike batches. So
all go on where the rank does that has read furthest.
"""

from __future__ import annotations

import functools
import itertools
import threading
import types
import weakref
from collections.abc import Generator, Iterator
from typing import Any

from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(GeneratorDataAdapter, "__init__")
require_reads(GeneratorDataAdapter, "__init__", "_first_batches", "generator")
require_hooks(TFEpochIterator, "_get_iterator")

# How long the next reader waits for a batch that the one before has asked for.
_MOST_SECONDS = 60


class _Progress:
    """Of a generator, in all calls: how many batches were read. Its lock is held while one is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_read = 0


_progresses: weakref.WeakKeyDictionary[Generator, _Progress] = weakref.WeakKeyDictionary()


class _Batches:
    """A generator's batches for the iterators of one call, one after the other."""

    def __init__(self, generator: Generator):
        self._generator = generator
        self._progress = _progresses.setdefault(generator, _Progress())
        self._reader = 0  # the number of the one that may read
        self._begin: int | None = self._num_read()  # until the first iterator is made

    def left(self) -> Iterator[Any]:
        """What is left of them, until another iterator begins or the call ends."""
        return self._read(self._reader)

    def end(self) -> None:
        """Lets what reads them read no more."""
        self._reader += 1

    def begin(self, peeked: list[Any], communicator: Communicator | None) -> None:
        """Lets the next iterator begin where the rank does that has read furthest; collective."""
        self.end()
        place = self._num_read() if self._begin is None else self._begin
        places = [place]
        if communicator is not None:
            own = str(place).encode()
            places = map(int, gather_bytes(own, communicator, "where a generator goes on"))
        num_lost = max(places) - place
        lost = list(itertools.islice(self.left(), num_lost))
        if self._begin is not None:  # what was peeked at are the first of them
            peeked[:] = [*peeked, *lost][num_lost:]
        self._begin = None

    def _read(self, reader: int) -> Iterator[Any]:
        while True:
            with self._progress.lock:
                if reader != self._reader:
                    return
                try:
                    batch = next(self._generator)
                except StopIteration:
                    return
                self._progress.num_read += 1
            yield batch

    def _num_read(self) -> int:
        if not self._progress.lock.acquire(timeout=_MOST_SECONDS):
            expected = "a generator that no earlier fit, evaluate or predict still reads"
            received = f"one whose next batch has not come within {_MOST_SECONDS} s"
            advice = "Give each call a generator of its own."
            raise RuntimeError(refusal(expected, received, advice))
        try:
            return self._progress.num_read
        finally:
            self._progress.lock.release()


def install() -> None:
    """Lets Keras read generators through `_Batches`."""
    make, get = GeneratorDataAdapter.__init__, TFEpochIterator._get_iterator

    @functools.wraps(make)
    def make_with_one_reader(self, generator):
        if not isinstance(generator, types.GeneratorType):
            make(self, generator)
            return
        self._adasum_batches = batches = _Batches(generator)
        make(self, batches.left())
        peeked = self._first_batches
        self.generator = lambda: itertools.chain(peeked, batches.left())

    @functools.wraps(get)
    def get_of_next_reader(self):
        batches = getattr(self.data_adapter, "_adasum_batches", None)
        if batches is not None:
            call = calls.current()
            batches.begin(self.data_adapter._first_batches, call and call.communicator)
            if not hasattr(self, "_adasum_end"):
                # The end of a call ends its epoch iterator, without a garbage collection.
                self._adasum_end = weakref.finalize(self, batches.end)
                self._adasum_end.atexit = False
        return get(self)

    GeneratorDataAdapter.__init__ = make_with_one_reader
    TFEpochIterator._get_iterator = get_of_next_reader
