"""One chaos run: when which rank gets which signal, and what became of it."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adasumrun import restart
from tests.faults.chaos import job as jobs

HANG_SECONDS = 30
# A rank that is stopped, or does not come to start MPI with the others, is given up by them then.
SILENCE_SECONDS = 15
# Batches are paced, so that a start has saved something before it is killed.
PAUSE_SECONDS = 0.01
_START_SECONDS = 120  # that a start may take until it trains
_TRAINING_SECONDS = 3  # that a start trains at most before it is killed
_SAVE_SECONDS = 5  # within which there is a save
_LIMIT_SECONDS = 150  # for whatever the run waits for
_EPOCHS_PER_KILL = 2
_SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGABRT)
_MOMENTS = ("start", "training", "training", "saving")


class Kill(NamedTuple):
    """What was done to a rank.

    Attributes:
        moment: "start", "training" or "saving".
        name: of the signal.
        rank: the rank that got it.
        seconds: until all processes of that start were gone.
    """

    moment: str
    name: str
    rank: int
    seconds: float


class Outcome(NamedTuple):
    """What a chaos run found.

    Attributes:
        kills: what was done, in order.
        left: processes and files that were left.
        unlike: the ranks whose final values differ from those of an undisturbed run.
        code: the launcher's exit code.
        log: what was said.
    """

    kills: list[Kill]
    left: list[str]
    unlike: list[int]
    code: int | None
    log: str

    def faults(self) -> list[str]:
        """What should not be, a line for each."""
        hangs = [kill for kill in self.kills if kill.seconds > HANG_SECONDS]
        faults = [f"a hang over {HANG_SECONDS} s: {kill}" for kill in hangs]
        faults += [f"left: {what}" for what in self.left]
        faults += [f"other values than undisturbed on rank {rank}" for rank in self.unlike]
        return faults + ([] if self.code == 0 else [f"exit code {self.code}, expected 0"])


def run(num_kills: int, seed: int, ranks: int) -> Outcome:
    """Trains undisturbed, and with so many kills; both make the same steps.

    Args:
        num_kills: how many ranks are killed or stopped, one after the other.
        seed: of the moments, ranks and signals.
        ranks: of the training.

    Raises:
        RuntimeError: if the job ends before all kills are made.
    """
    epochs = _EPOCHS_PER_KILL * num_kills + 2
    with tempfile.TemporaryDirectory(prefix="chaos") as name:
        folders = [Path(name) / "undisturbed", Path(name) / "disturbed"]
        for folder in folders:
            folder.mkdir()
            jobs.prepare(folder)
        began = time.monotonic()
        undisturbed = jobs.Job(folders[0], ranks, epochs, 0.0)
        try:
            jobs.wait_until(lambda: undisturbed.trains(0), _START_SECONDS)
            usual = time.monotonic() - began
            code = undisturbed.finish(_START_SECONDS + epochs)
        finally:
            undisturbed.end()
        if code != 0:
            raise RuntimeError(f"the undisturbed run ended with {code}: {undisturbed.log()}")
        say(f"the undisturbed run began to train after {usual:.1f} s")
        chaos = Chaos(folders[1], random.Random(seed), ranks, epochs, usual)
        return chaos.run(num_kills, folders[0])


class Chaos:
    """The disturbed run.

    Args:
        folder: the job's.
        draw: moments, ranks and signals.
        ranks: how many.
        epochs: how many are trained.
        usual: seconds that a start takes until it trains.
    """

    def __init__(self, folder, draw, ranks, epochs, usual):
        self._draw = draw
        self._num_ranks = ranks
        self._usual = usual
        # Starts in a row that failed within the launcher's limit.
        self._at_once = 0
        self._job = jobs.Job(
            folder,
            ranks,
            epochs,
            PAUSE_SECONDS,
            ["--max-restarts=100000"],
            {
                "TF_ADASUM_TIMEOUT_SECONDS": str(SILENCE_SECONDS),
                "TF_ADASUM_STALL_WARNING_SECONDS": "0",
            },
        )

    def run(self, num_kills: int, undisturbed: Path) -> Outcome:
        """Kills, lets the training end, and compares."""
        kills = []
        try:
            for start in range(num_kills):
                kills.append(self._kill(start))
                say(f"{len(kills)} of {num_kills}: {describe(kills[-1])}")
            code = self._job.finish(_START_SECONDS + 10 * num_kills)
        finally:
            self._job.end()
        unlike = [rank for rank in range(self._num_ranks) if not self._is_like(undisturbed, rank)]
        return Outcome(kills, self._job.left(), unlike, code, self._job.log())

    def _kill(self, start: int) -> Kill:
        ranks: dict[int, int] = {}

        def has_started() -> bool:
            ranks.update(self._job.ranks(start))
            return len(ranks) == self._num_ranks

        self._await(has_started, f"start {start} has all ranks")
        self._await_moment(start)
        number, rank = self._draw.choice(_SIGNALS), self._draw.randrange(self._num_ranks)
        processes, moment = self._job.processes(), self._moment(start)
        os.kill(ranks[rank], number)
        killed = time.monotonic()
        self._await(lambda: not any(map(jobs.is_there, processes)), f"start {start} ends")
        return Kill(moment, number.name, rank, time.monotonic() - killed)

    def _await_moment(self, start: int) -> None:
        """Returns at a random moment of a start, and of the kind that was drawn."""
        began = time.monotonic()
        wanted = self._draw.choice(_MOMENTS)
        if wanted == "start":
            time.sleep(self._draw.uniform(0, self._usual))
        else:
            self._await(lambda: self._job.trains(start), f"start {start} trains")
            time.sleep(self._draw.uniform(0, _TRAINING_SECONDS))
        # The launcher gives up after three starts in a row that failed at once.
        is_last_allowed = self._at_once == restart.MOST_AT_ONCE - 1
        if is_last_allowed and (left := began + restart.AT_ONCE_SECONDS - time.monotonic()) > 0:
            time.sleep(left)
        self._at_once = (
            self._at_once + 1 if time.monotonic() - began < restart.AT_ONCE_SECONDS else 0
        )
        if wanted == "saving":
            self._await(lambda: self._job.trains(start), f"start {start} trains")
            jobs.wait_until(self._job.saves, _SAVE_SECONDS, every=0.0005)

    def _moment(self, start: int) -> str:
        if not self._job.trains(start):
            return "start"
        return "saving" if self._job.saves() else "training"

    def _await(self, condition, what: str) -> None:
        if not jobs.wait_until(lambda: condition() or self._job.code() is not None, _LIMIT_SECONDS):
            raise RuntimeError(f"waited {_LIMIT_SECONDS} s until {what}: {self._job.log()}")
        if self._job.code() is not None:
            raise RuntimeError(f"the job ended before {what}: {self._job.log()}")

    def _is_like(self, undisturbed: Path, rank: int) -> bool:
        """Whether all values of a rank have the bits of an undisturbed run."""
        try:
            ours = np.load(self._job.folder / f"result.{rank}.npz")
        except OSError:
            return False
        theirs = np.load(undisturbed / f"result.{rank}.npz")
        return ours.files == theirs.files and all(
            ours[name].tobytes() == theirs[name].tobytes() for name in theirs.files
        )


def describe(kill: Kill) -> str:
    """Returns a kill in words."""
    return f"{kill.name} to rank {kill.rank} ({kill.moment}), all gone after {kill.seconds:.1f} s"


def say(text: str) -> None:
    """Prints a line at once."""
    print(f"chaos: {text}", flush=True)
