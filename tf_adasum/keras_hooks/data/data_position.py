"""Where `fit` is in its data, so that a training that was interrupted goes on there.

Nobody can ask tf.data how it would shuffle next: a pipeline takes new seeds whenever an iterator
over it is made. What counts is therefore how often that happened. A program that is started again
and seeded as before repeats what it did before `fit`; here the iterators of the epochs that are
over are made once more, without their data, then the batches of the epoch that was interrupted
are read and not trained on. So an epoch has the order that it would have had.
"""

from __future__ import annotations

import functools
import queue
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import (
    PyDatasetAdapter,
    PyDatasetEnqueuer,
)
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from tensorflow.python.eager import context as eager_context

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(TFEpochIterator, "__init__", "_enumerate_iterator", "_get_iterator")
require_reads(
    TFEpochIterator,
    "_enumerate_iterator",
    *("_current_iterator", "_get_iterator", "_num_batches", "_steps_seen"),
)
require_hooks(DataAdapter, "on_epoch_begin", "on_epoch_end")
require_reads(PyDatasetAdapter, "__init__", "enqueuer")
require_reads(PyDatasetEnqueuer, "stop", "ready_queue")
require_hooks(eager_context, "global_seed")

# What happened to data: an epoch began or ended, an iterator was made, or made and read from.
_BEGIN, _END, _MADE, _READ = "beiI"


def install() -> None:
    """Lets `TFEpochIterator` note what it does, and begin in the midst of an epoch."""
    make = TFEpochIterator.__init__
    get = TFEpochIterator._get_iterator
    enumerate_ = TFEpochIterator._enumerate_iterator

    @functools.wraps(make)
    def make_and_note(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self._adasum_progress = Progress(self, bool(kwargs.get("shuffle")))
        _made.latest = weakref.ref(self)
        call = calls.current()
        if call is not None and call.first_iterator is None:
            call.first_iterator = _made.latest

    @functools.wraps(get)
    def get_and_note(self):
        self._adasum_progress.note(_MADE)
        return get(self)

    @functools.wraps(enumerate_)
    def enumerate_from(self) -> Iterator[tuple]:
        progress = self._adasum_progress
        first = progress.begin_epoch()
        for begin, end, iterator in enumerate_(self):
            progress.note_read()
            if end >= first:
                yield begin, end, iterator
            elif not progress.pass_over(end - begin + 1, iterator):
                return

    TFEpochIterator.__init__ = make_and_note
    TFEpochIterator._get_iterator = get_and_note
    TFEpochIterator._enumerate_iterator = enumerate_from


class _Made(threading.local):
    """The epoch iterator that was made last in this thread."""

    latest: weakref.ref[TFEpochIterator] | None = None


_made = _Made()


def of_begun_fit() -> Progress | None:
    """Returns the progress of the `fit` whose callbacks begin; None if there is none.

    Where no strategy was made, a call of `fit` may be older than the hooks: its iterator over the
    training data is then the one that was made last.
    """
    call = calls.current()
    weak = _made.latest if call is None else call.first_iterator
    iterator = weak() if weak is not None else None
    return None if iterator is None else iterator._adasum_progress


class Progress:
    """What a call of `fit` did with its data so far.

    Args:
        iterator: the epoch iterator of `fit`.
        shuffles: whether Keras shuffles.

    Attributes:
        is_resumed: whether another process made some of the steps of the epoch under way.
    """

    is_resumed = False

    def __init__(self, iterator: TFEpochIterator, shuffles: bool):
        # Not a cycle: the end of `fit` ends its iterators, without a garbage collection.
        self._weak_iterator = weakref.ref(iterator)
        self._adapter = iterator.data_adapter
        self._shuffles = shuffles or isinstance(self._adapter, TFDatasetAdapter)
        self._seed = eager_context.global_seed()
        self._events: list[str] = []
        self._begin: dict[str, Any] = {}
        self._resumed: tuple[dict[str, Any], int] | None = None
        self._reads_what_is_over = not isinstance(self._adapter, GeneratorDataAdapter)
        for name, event in (("on_epoch_begin", _BEGIN), ("on_epoch_end", _END)):
            self._note_calls(name, event)

    @property
    def iterator(self) -> TFEpochIterator:
        """The epoch iterator, as long as `fit` is under way."""
        return self._weak_iterator()

    def position(self, in_epoch: bool) -> dict[str, Any]:
        """Returns what `resume` takes, made of numbers and strings.

        Args:
            in_epoch: whether it is that of the epoch under way, or of the next one.
        """
        return dict(self._begin) if in_epoch else self._now()

    def resume(self, position: dict[str, Any], batch: int) -> str:
        """Lets the next epoch go on as another process would have gone on.

        Args:
            position: what `position` returned there.
            batch: how many batches of the epoch are done.

        Returns:
            Why the data can't be those that would have come; empty if they are.
        """
        done, number = position["num_batches"], self.iterator._num_batches
        if batch and done and number and done != number:
            batch = batch * number // done  # of other batches than before
        self._resumed = (position, batch)
        if position["kind"] != type(self._adapter).__name__:
            self._reads_what_is_over = False
            return (
                f"they are read by {type(self._adapter).__name__}, and were by {position['kind']}"
            )
        if isinstance(self._adapter, GeneratorDataAdapter):
            return "they come from a generator, which begins anew"
        if done != number and done and number:
            return f"an epoch had {done} batches, and has {number}"
        if self._workers is not None and number and not self._reads_whole_epochs():
            return "workers read ahead in a PyDataset, an epoch of which is not one of fit"
        seed = position["seed"]
        if self._shuffles and (seed is None or seed != self._seed):
            return (
                f"TensorFlow's seed was {seed} and is {self._seed}, so that they are shuffled "
                "otherwise; call keras.utils.set_random_seed at the program's begin"
            )
        return ""

    def note(self, event: str) -> None:
        """Remembers an event."""
        self._events.append(event)

    def note_read(self) -> None:
        """Remembers that the last iterator is read from."""
        for index in reversed(range(len(self._events))):
            if self._events[index] in (_MADE, _READ):
                self._events[index] = _READ
                return

    def begin_epoch(self) -> int:
        """Makes good for what another process did, once; returns the first batch to train on."""
        first = 0
        if self._resumed is not None:
            (position, first), self._resumed = self._resumed, None
            self._repeat(position, True)
        self._begin = self._now()
        self.is_resumed = first > 0
        return first

    def end(self) -> None:
        """Does to the data what the other process did, where no epoch is left: for a later `fit`.

        Nothing is read of a pipeline, whose order is that of its iterators.
        """
        if self._resumed is not None:
            (position, _), self._resumed = self._resumed, None
            self._repeat(position, False)
            if self._workers is not None:
                self._workers.stop()

    def pass_over(self, number: int, iterator: Iterator) -> bool:
        """Reads batches that were trained on before; returns whether there were so many."""
        if not self._reads_what_is_over:
            return True
        try:
            for _ in range(number):
                next(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            return False
        return True

    def _now(self) -> dict[str, Any]:
        # With steps_per_epoch an epoch goes on where the one before ended.
        goes_on = self.iterator.steps_per_epoch and self.iterator._current_iterator is not None
        return {
            "kind": type(self._adapter).__name__,
            "events": "".join(self._events),
            "read": self.iterator._steps_seen if goes_on else None,
            "num_batches": self.iterator._num_batches,
            "seed": self._seed,
        }

    def _missed(self, events: str, epoch_follows: bool) -> str | None:
        """Returns what the other process did beyond what this one did; None if that is another."""
        mine = "".join(self._events)
        if not self._reads_what_is_over or not events.lower().startswith(mine.lower()):
            return None
        if epoch_follows and events.rfind(_BEGIN) > events.rfind(_END):
            events += _END  # of an epoch that `stop_training` broke off
        return events[len(mine) :]

    def _repeat(self, position: dict[str, Any], epoch_follows: bool) -> None:
        events = self._missed(position["events"], epoch_follows)
        if events is None:
            return
        last = max(events.rfind(_MADE), events.rfind(_READ))
        # The order of a PyDataset is drawn when the first batch is asked for; by its workers, if it
        # has some, when the epoch begins.
        draws_late = isinstance(self._adapter, PyDatasetAdapter)
        only_workers = self._workers is not None and self._reads_whole_epochs()
        current = None
        for index, event in enumerate(events):
            if event == _BEGIN:
                self._adapter.on_epoch_begin()
            elif event == _END:
                self._adapter.on_epoch_end()
                if only_workers:  # they keep for the next epoch what nobody has read
                    self._workers.ready_queue = queue.Queue()
            elif only_workers:
                self.note(event)
            else:
                current = iter(self.iterator._get_iterator())
                goes_on = index == last and position["read"] is not None
                if event == _READ:
                    self.note_read()
                    self.pass_over(int(draws_late and not goes_on), current)
        reads = epoch_follows or draws_late
        if reads and position["read"] is not None and current is not None:
            self.pass_over(position["read"], current)
            self.iterator._current_iterator = current
            self.iterator._steps_seen = position["read"]
        if self.iterator._num_batches is None:
            self.iterator._num_batches = position["num_batches"]

    @property
    def _workers(self) -> PyDatasetEnqueuer | None:
        """What reads a `PyDataset` ahead."""
        return getattr(self._adapter, "enqueuer", None)

    def _reads_whole_epochs(self) -> bool:
        """Whether an epoch of `fit` is one of the data."""
        number = self.iterator._num_batches
        return bool(number) and self.iterator.steps_per_epoch in (None, number)

    def _note_calls(self, name: str, event: str) -> None:
        # No cycle here either: an adapter holds what was made of the data for TensorFlow.
        original = getattr(type(self._adapter), name)
        weak_progress, weak_adapter = weakref.ref(self), weakref.ref(self._adapter)

        def noted():
            progress = weak_progress()
            if progress is not None:
                progress.note(event)
            original(weak_adapter())

        setattr(self._adapter, name, noted)
