"""Iterators over data end in the background: ending one takes up to a minute.

tf.data has a thread for each iterator that tunes it, and ends it by a flag and a wake-up call
(`Model::OptimizeLoop`). The thread may wake before the flag is set, most of all on busy cores; it
then sleeps on until it would have tuned next, for up to 60 s. The end of the iterator waits for it,
and with it the end of `fit`, on all ranks.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import input_lib

from tf_adasum.keras_hooks.guard import require_hooks

_Iterator = input_lib._SingleWorkerOwnedDatasetIterator
require_hooks(_Iterator, "_make_iterator")

# Longer than it takes an iterator to let go of what it had.
_LET_GO_SECONDS = 0.1


def install() -> None:
    """Hands what an iterator of a strategy has to a thread of its own when nobody needs it.

    For every strategy of this process: an iterator does not know which one it is for.
    """
    original = _Iterator._make_iterator

    @functools.wraps(original)
    def make(self):
        original(self)
        if tf.executing_eagerly():
            # The resources, and the dataset, whose generators they call.
            what_it_has = dict(vars(self._iterator))
            end = weakref.finalize(self._iterator, _drop_in_background, what_it_has)
            end.atexit = False  # the process ends with whatever is under way

    _Iterator._make_iterator = make


def _drop_in_background(what: dict[str, Any]) -> None:
    threading.Thread(target=_drop, args=(what,), name="end of an iterator", daemon=True).start()


def _drop(what: dict[str, Any]) -> None:
    time.sleep(_LET_GO_SECONDS)
    what.clear()  # the last references, without the GIL
