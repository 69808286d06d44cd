"""The job of a chaos run: its processes, what it says, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from adasumrun import job as launched
from adasumrun import process_tree, requests

_PREPARE = """
import sys, numpy as np
from sklearn.datasets import load_digits
data = load_digits()
np.savez(sys.argv[1], images=(data.data / 16).astype("float32"), labels=data.target)
"""
_PROGRAM = Path(__file__).with_name("training.py")
_SHARED_MEMORY = Path("/dev/shm")


def prepare(folder: Path) -> None:
    """Writes scikit-learn's digits, which ranks that start without it read."""
    path = str(folder / "digits.npz")
    subprocess.run([sys.executable, "-I", "-c", _PREPARE, path], check=True)


class Job:
    """A training under adasumrun.

    Args:
        folder: with digits.npz; everything that the ranks write goes there.
        ranks: how many.
        epochs: how many the ranks train.
        pause: seconds between two batches.
        options: further options of adasumrun.
        variables: further environment variables.
    """

    def __init__(self, folder, ranks, epochs, pause, options=(), variables=None):
        self.folder = folder
        (folder / "tmp").mkdir()
        self._before = _shared_memory_files()
        launcher = [sys.executable, "-m", "adasumrun", "-np", str(ranks), *options]
        program = [sys.executable, str(_PROGRAM), str(folder), str(epochs), str(pause)]
        paths = os.pathsep.join(filter(None, sys.path))
        # MPI's session files go to a folder of the job's own, where what is left is the job's.
        own = {"PYTHONPATH": paths, "TMPDIR": str(folder / "tmp")}
        with open(folder / "log", "wb") as log:
            self._launcher = subprocess.Popen(
                [*launcher, *program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own, **(variables or {})},
            )

    def code(self) -> int | None:
        """The launcher's exit code; None while it runs."""
        return self._launcher.poll()

    def log(self) -> str:
        """What the launcher and the ranks have said."""
        return (self.folder / "log").read_text(errors="replace")

    def processes(self) -> list[int]:
        """All processes below the launcher."""
        return process_tree.descendants(self._launcher.pid)

    def ranks(self, start: int) -> dict[int, int]:
        """Process ids by rank of the start with this number."""
        found = {}
        for process in self.processes():
            environment = process_tree.environment(process)
            rank = launched.rank(environment)
            if environment.get(requests.RESTARTS_VARIABLE) == str(start) and rank is not None:
                found[int(rank)] = process
        return found

    def trains(self, start: int) -> bool:
        """Whether the start with this number has made a batch."""
        return (self.folder / f"trains.{start}").exists()

    def saves(self) -> bool:
        """Whether a save is under way."""
        return (self.folder / "backup" / "training.h5.partial").exists()

    def finish(self, limit: float) -> int | None:
        """Lets the training end and returns the exit code; None if it takes longer than that."""
        (self.folder / "finish").touch()
        try:
            return self._launcher.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def left(self) -> list[str]:
        """What is still there of it, processes and files, once the launcher has ended."""
        mark = os.fsencode(self.folder)
        processes = [
            f"process {process}"
            for process in map(int, filter(str.isdigit, os.listdir("/proc")))
            if process != os.getpid() and mark in _command_line(process)
        ]
        saved = [path for path in (self.folder / "backup").glob("*") if path.suffix != ".h5"]
        files = [*(self.folder / "tmp").rglob("*"), *saved]
        # Of other jobs of this machine are those that a process has open.
        shared = _shared_memory_files() - self._before
        return [*processes, *map(str, files), *sorted(shared - _mapped_files())]

    def end(self) -> None:
        """Ends the launcher, and with it all processes below."""
        if self.code() is None:
            self._launcher.terminate()
            self._launcher.wait(60)


def is_there(process: int) -> bool:
    """Whether a process has not ended; one that nobody has reaped has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def wait_until(condition, seconds: float, every: float = 0.02) -> bool:
    """Whether the condition comes true within so many seconds."""
    end = time.monotonic() + seconds
    while not (is_true := condition()) and time.monotonic() < end:
        time.sleep(every)
    return is_true


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _shared_memory_files() -> set[str]:
    return {str(path) for path in _SHARED_MEMORY.rglob("*") if path.is_file()}


def _mapped_files() -> set[str]:
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        except OSError:
            continue
        found.update(line.split(maxsplit=5)[-1] for line in lines if str(_SHARED_MEMORY) in line)
    return found
