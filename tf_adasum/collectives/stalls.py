"""Says which ranks are missing where an operation has waited for long.

Each rank has a thread that looks once a second what this process waits in. If an operation has
waited for TF_ADASUM_STALL_WARNING_SECONDS, it asks the first rank of the operation's group for a
roll call: that one asks all ranks of the group, waits a few seconds for their answers, writes the
report to stderr, and sends it back for the timelines. A first rank that does not stir (it may be
the one that is stopped) is passed over for the next.
"""

from __future__ import annotations

import atexit
import math
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field

from tf_adasum.collectives import native, stall_report
from tf_adasum.collectives.mailbox import Mailbox
from tf_adasum.collectives.stall_report import Answer

VARIABLE = "TF_ADASUM_STALL_WARNING_SECONDS"
DEFAULT_SECONDS = "10"
_LOOK_EVERY_SECONDS = 1.0
_LOOK_SOON_SECONDS = 0.1  # while a roll call is on
_ANSWER_SECONDS = 3.0  # that a rank has to answer
_STIR_SECONDS = 5.0  # that a rank has to begin the roll call
_MOST_LINE_BYTES = 1000  # of the report, for the timelines
_SAME_STALL_SECONDS = 1.5  # starts of one and the same wait, seen from two ranks, are closer

Group = tuple[int, int]  # its name on all ranks


@dataclass
class _Stall:
    """A wait of this process that is too long."""

    start: float
    is_asked: bool = False  # somebody holds the roll call
    num_asked: int = 0  # ranks that this one has asked to hold it
    ask_next: float = 0.0  # when to ask the next one


@dataclass
class _RollCall:
    """One that this process holds."""

    ranks: list[int]
    end: float
    answers: dict[int, Answer] = field(default_factory=dict)


class StallWatch:
    """The watching thread of this process; `stop` ends it.

    Args:
        mailbox: this thread's.
        places: host and process of each rank, for people.
        seconds: how long an operation may wait before it is told.
    """

    def __init__(self, mailbox: Mailbox, places: dict[int, str], seconds: float):
        self._mailbox = mailbox
        self._places = places
        self._seconds = seconds
        self._stalls: dict[Group, _Stall] = {}
        self._roll_calls: dict[Group, _RollCall] = {}
        # The operation that was told last, and since when it had waited.
        self._said: dict[Group, tuple[str, float]] = {}
        self._look_soon_until = 0.0
        self._has_failed = False
        self._home = os.getpid()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tf_adasum-stalls", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread: MPI is about to end. Not in a forked child, which has none."""
        self._ends.set()
        if os.getpid() == self._home:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ends.wait(self._pause()):
            try:
                self._look()
            except Exception as error:
                if not self._has_failed:
                    self._say(f"stall reports may be incomplete: {error}")
                self._has_failed = True

    def _look(self) -> None:
        waits = {wait.group: wait for wait in native.lib.waiting()}
        for sender, message in self._mailbox.receive():
            self._take(sender, message, waits)
        self._report_own(waits)
        for group in list(self._roll_calls):
            self._conclude(group)

    def _say(self, text: str) -> None:
        print(f"tf_adasum: rank {self._mailbox.rank}: {text}", file=sys.stderr, flush=True)

    def _pause(self) -> float:
        is_soon = time.monotonic() < self._look_soon_until
        return _LOOK_SOON_SECONDS if is_soon else _LOOK_EVERY_SECONDS

    def _report_own(self, waits: dict) -> None:
        """Asks for a roll call where this process waits for too long."""
        now = time.monotonic()
        self._stalls = {group: self._stalls[group] for group in waits if group in self._stalls}
        for group, wait in waits.items():
            if wait.seconds < self._seconds:
                continue
            start, stall = now - wait.seconds, self._stalls.get(group)
            if stall is None or abs(start - stall.start) > _SAME_STALL_SECONDS:
                stall = self._stalls[group] = _Stall(start)
            holders = sorted(wait.world_ranks)
            if stall.is_asked or stall.num_asked == len(holders) or now < stall.ask_next:
                continue
            holder = holders[stall.num_asked]
            stall.num_asked += 1
            stall.ask_next = now + _STIR_SECONDS
            ranks = stall_report.packed(holders)
            self._send(holder, {"call": group, "ranks": ranks}, waits)

    def _send(self, to: int, message: dict, waits: dict) -> None:
        if to == self._mailbox.rank:
            self._take(to, message, waits)
        else:
            self._mailbox.send(to, message)

    def _take(self, sender: int, message: dict, waits: dict) -> None:
        if "call" in message:
            ranks = stall_report.unpacked(message["ranks"])
            self._call(tuple(message["call"]), ranks, waits)
        elif "where" in message:
            self._answer(sender, tuple(message["where"]), waits)
        elif "here" in message:
            call = self._roll_calls.get(tuple(message["here"]))
            if call is not None:
                call.answers[sender] = Answer(*message["answer"])
        elif "report" in message:
            self._note(tuple(message["report"]), message["text"], waits)

    def _call(self, group: Group, ranks: list[int], waits: dict) -> None:
        if group not in self._roll_calls:
            self._roll_calls[group] = _RollCall(ranks, time.monotonic() + _ANSWER_SECONDS)
            for rank in ranks:
                self._send(rank, {"where": group}, waits)

    def _answer(self, holder: int, group: Group, waits: dict) -> None:
        wait = waits.get(group)
        self._look_soon_until = time.monotonic() + _ANSWER_SECONDS
        if group in self._stalls:
            self._stalls[group].is_asked = True
        own = stall_report.answer(*([], 0.0) if wait is None else (wait.operations, wait.seconds))
        self._send(holder, {"here": group, "answer": own}, waits)

    def _conclude(self, group: Group) -> None:
        """Says what came out of a roll call, once all have answered or the time is up."""
        call, now = self._roll_calls[group], time.monotonic()
        if len(call.answers) < len(call.ranks) and now < call.end:
            return
        del self._roll_calls[group]
        operation, seconds = stall_report.stalled(call.answers)
        start = now - seconds
        if seconds < self._seconds or self._is_said(group, operation, start):
            return  # it went on meanwhile, or a rank that came later has asked
        self._said[group] = operation, start
        text = stall_report.text(call.answers, call.ranks, self._places)
        self._say(text)
        line = stall_report.cut(text.partition("\n")[0], _MOST_LINE_BYTES)
        waits = {wait.group: wait for wait in native.lib.waiting()}
        for rank, answer in call.answers.items():
            if answer.operations:
                self._send(rank, {"report": group, "text": line}, waits)

    def _is_said(self, group: Group, operation: str, start: float) -> bool:
        said, since = self._said.get(group, ("", -math.inf))
        # Answers come late, and the start seems so, too. Where ranks wait for unlike operations,
        # any of them may seem to be the oldest.
        late = _ANSWER_SECONDS if operation == said else 0.0
        return abs(start - since) < _SAME_STALL_SECONDS + late

    def _note(self, group: Group, text: str, waits: dict) -> None:
        if group in waits:
            wait = waits[group]
            native.lib.add_to_timeline(wait.id, f"stall: {text}", wait.seconds)


def watch(mpi) -> None:
    """Starts the watch of this process; collective over all ranks.

    Args:
        mpi: the module mpi4py.MPI, started.

    Raises:
        ValueError: on all ranks, if TF_ADASUM_STALL_WARNING_SECONDS of one of them is no number.
    """
    mailbox = Mailbox(mpi)
    host = os.environ.get("TF_ADASUM_HOST") or socket.gethostname()
    own = {"host": host[:64], "pid": os.getpid(), "seconds": os.environ.get(VARIABLE, "")[:64]}
    everyone = mailbox.tell_all(own)
    limits = [_checked(rank, one["seconds"]) for rank, one in enumerate(everyone)]
    if not limits[mailbox.rank]:
        return
    places = {
        rank: f"host {one['host']}, process {one['pid']}" for rank, one in enumerate(everyone)
    }
    started = StallWatch(mailbox, places, limits[mailbox.rank])
    _stop_before_mpi_ends(mpi, started)


def _checked(rank: int, text: str) -> float:
    try:
        seconds = float(text or DEFAULT_SECONDS)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ValueError(
            f"rank {rank}: Expected a number of seconds from 0 on in {VARIABLE}. "
            f"Received: {text!r}. Set it so, or unset it."
        )
    return seconds


def _stop_before_mpi_ends(mpi, started: StallWatch) -> None:
    """MPI_Finalize deletes the attributes of MPI_COMM_SELF before all, whoever calls it."""
    stop = mpi.Comm.Create_keyval(delete_fn=lambda *_: started.stop())
    mpi.COMM_SELF.Set_attr(stop, None)

    def end() -> None:
        # While there is an interpreter: the library ends MPI after it.
        if os.getpid() == started._home and not mpi.Is_finalized():
            mpi.COMM_SELF.Delete_attr(stop)

    atexit.register(end)
