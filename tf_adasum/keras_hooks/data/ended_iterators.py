"""Iterators over data end in the background: ending one takes up to a minute.

tf.data has a thread for each iterator that tunes it, and ends it by a flag and a wake-up call
(`Model::OptimizeLoop`). The thread may wake before the flag is set, most of all on busy cores; it
then sleeps on until it would have tuned next, for up to 60 s. The end of the iterator waits for it,
and with it the end of `fit`, on all ranks.

A thread that comes back from TensorFlow's C++ while Python ends would end the process with SIGABRT:
Python unwinds the stack of such a thread, and C++ frames do not allow that. So the process waits at
its end for what is still ending.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import time
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import input_lib

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(input_lib, "_SingleWorkerOwnedDatasetIterator")
_Iterator = input_lib._SingleWorkerOwnedDatasetIterator
require_hooks(_Iterator, "_make_iterator")

# Longer than it takes an iterator to let go of what it had.
_LET_GO_SECONDS = 0.1
# The end of the process waits silently for the one, and no longer than the other: more than the
# 60 s of a tuning thread.
_SILENT_SECONDS = 5
_MOST_SECONDS = 90


def install() -> None:
    """Hands what an iterator of a strategy has to a thread of its own when nobody needs it.

    For every strategy of this process: an iterator does not know which one it is for.
    """
    original = _Iterator._make_iterator
    ending = _Ending()
    atexit.register(ending.wait)

    @functools.wraps(original)
    def make(self):
        original(self)
        if tf.executing_eagerly():
            # The resources, and the dataset, whose generators they call.
            what_it_has = dict(vars(self._iterator))
            end = weakref.finalize(self._iterator, ending.drop, what_it_has)
            end.atexit = False  # what still lives when the process ends need not end in order

    _Iterator._make_iterator = make


class _Ending:
    """The threads that drop what iterators had."""

    def __init__(self) -> None:
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._is_exiting = False
        self._kept: list[dict[str, Any]] = []

    def drop(self, what: dict[str, Any]) -> None:
        """Drops `what` on a thread of its own. Any thread may call this, while it collects."""
        if self._is_exiting:
            self._kept.append(what)
            return
        thread = threading.Thread(
            target=self._drop, args=(what,), name="end of an iterator", daemon=True
        )
        thread.start()
        self._threads.add(thread)

    def _drop(self, what: dict[str, Any]) -> None:
        time.sleep(_LET_GO_SECONDS)
        if self._is_exiting:
            self._kept.append(what)
        else:
            what.clear()  # the last references, without the GIL

    def wait(self) -> None:
        """Waits until no thread is on its way, at the end of the process."""
        self._is_exiting = True
        begin = time.monotonic()
        if self._join(begin + _SILENT_SECONDS):
            return
        limit = _MOST_SECONDS - _SILENT_SECONDS
        print(
            f"tf_adasum: waits for tf.data to end its iterators, for up to {limit} s.",
            file=sys.stderr,
            flush=True,
        )
        self._join(begin + _MOST_SECONDS)

    def _join(self, deadline: float) -> bool:
        """Whether all threads ended before `deadline`, in seconds of the monotonic clock."""
        threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
