"""What a training is asked for by signals, made known to all its ranks after the same batch."""

from __future__ import annotations

import enum
import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

import numpy as np

from adasumrun import requests
from tf_adasum.collectives.communicator import Communicator

_log = logging.getLogger("tf_adasum")

# About how long a request waits until the ranks ask each other: a message a second costs nothing.
_SECONDS_BETWEEN = 1.0
# Nor does one in so many fast batches. Those to come may be slow at once, and a request waits them.
_MOST_BETWEEN = 8


class Asked(enum.IntEnum):
    """What is asked for; the greater one counts."""

    NOTHING = 0
    BACK_UP = 1
    BACK_UP_AND_END = 2


def heard_signals(environment: Mapping[str, str] = os.environ) -> dict[signal.Signals, Asked]:
    """Returns which signals ask for what.

    SIGUSR1 and SIGTERM are a scheduler's, which some send to every process of a job. SIGTERM is
    also mpirun's to what is left of a job that failed, but then SIGKILL follows within a second or
    a few.
    """
    heard = {signal.SIGUSR1: Asked.BACK_UP, signal.SIGTERM: Asked.BACK_UP_AND_END}
    if requests.RESTARTS_VARIABLE in environment:  # under adasumrun, which sends these two
        own = {requests.BACK_UP: Asked.BACK_UP, requests.BACK_UP_AND_END: Asked.BACK_UP_AND_END}
        return {**own, **heard}
    return heard


class SaveRequests:
    """Hears requests between `start` and `stop`, and tells all ranks of them.

    A signal reaches ranks at different batches. They ask each other after batches that they agreed
    on the last time, as many apart as rank 0 makes in a second but at most _MOST_BETWEEN, and
    where an epoch ends.

    Args:
        communicator: the ranks that train together; None for a process alone.
    """

    def __init__(self, communicator: Communicator | None):
        self._communicator = communicator
        self._mine = Asked.NOTHING
        self._number = signal.SIGTERM  # the signal by which this process was asked last
        self._handlers: dict[signal.Signals, object] = {}
        self._interval = 1  # batches from one question to the next
        self._since = 0
        self._last = time.monotonic()

    def start(self) -> None:
        """Begins to hear; what the program hears by handlers of its own is left to it."""
        for number, asked in heard_signals().items():
            if signal.getsignal(number) is not signal.SIG_DFL:
                continue
            # What C code has set, as faulthandler does, Python does not know.
            if requests.catches(os.getpid(), number):
                if asked == Asked.BACK_UP_AND_END and self._speaks():
                    _tell_of_c_code(number.name)
                continue
            note = self._note(asked)
            try:
                signal.signal(number, note)
            except ValueError:
                return  # only the main thread may
            self._handlers[number] = note
            _hearing.add(self)

    def stop(self) -> None:
        """Hears no longer."""
        _hearing.discard(self)
        while self._handlers:
            number, note = self._handlers.popitem()
            if signal.getsignal(number) is note:  # and no handler that the program has set since
                signal.signal(number, signal.SIG_DFL)

    def after(self, num_batches: int) -> Asked:
        """Returns what any rank was asked for, the same on all ranks; collective.

        Args:
            num_batches: how many more batches are done.
        """
        self._since += num_batches
        if self._communicator is not None and self._since < self._interval:
            return Asked.NOTHING
        return self.now()

    def now(self) -> Asked:
        """As `after`, whenever the ranks asked each other the last time; collective."""
        asked = self._mine if self._communicator is None else self._ask()
        if self._mine <= asked:
            self._mine = Asked.NOTHING
        return asked

    def pass_on(self) -> None:
        """Lets this process end by what asked it to when nobody hears it any more, if it was.

        The exception that ends `fit`, if one does, is logged: nobody would see it any more.
        """
        if self._mine != Asked.BACK_UP_AND_END:
            return
        if signal.getsignal(self._number) is signal.SIG_DFL:
            name = signal.Signals(self._number).name
            if (error := sys.exc_info()[1]) is not None:
                _log.error("%s ends this process, whose fit has failed:", name, exc_info=error)
            os.kill(os.getpid(), self._number)

    def _speaks(self) -> bool:
        return self._communicator is None or self._communicator.rank == 0

    def _ask(self) -> Asked:
        told = np.array([self._mine, self._next_interval()], np.int32)
        if self._communicator.rank > 0:
            told[1] = 0
        self._communicator.allreduce_arrays([told], "max", "fit: whether a backup is asked for")
        self._since, self._last = 0, time.monotonic()
        self._interval = int(told[1])
        return Asked(int(told[0]))

    def _next_interval(self) -> int:
        """As many batches as the last ones let expect; twice as many as before at most."""
        seconds = max(time.monotonic() - self._last, 1e-6)
        expected = int(self._since / seconds * _SECONDS_BETWEEN)
        return max(1, min(expected, 2 * self._interval, _MOST_BETWEEN))

    def _note(self, asked: Asked):
        def note(number, frame):
            if asked >= self._mine:
                self._mine, self._number = asked, number

        return note


@functools.cache
def _tell_of_c_code(name: str) -> None:
    """Once, and not in each `fit`."""
    _log.warning("C code catches %s: no backup is made on it", name)


class _Masks(threading.local):
    """The signals that this thread held back before it forked; None if it hears as ever."""

    before: set | None = None


_hearing: set[SaveRequests] = set()
_masks = _Masks()


def _hold_back() -> None:
    """What a child is sent before it has its handlers again is lost without this."""
    if _hearing:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, heard_signals())


def _let_through() -> None:
    before, _masks.before = _masks.before, None
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hear_nothing() -> None:
    """A child that only notes a signal outlives it: a multiprocessing.Pool ends its own so."""
    for requests_ in list(_hearing):
        requests_.stop()
    _let_through()


os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_hear_nothing)
