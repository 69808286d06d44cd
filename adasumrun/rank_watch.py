"""Looks at the ranks of this host, and sees what lets a job wait for ever.

* A rank has ended before it started MPI, where the others wait for it. mpirun knows by itself if it
  failed, or another one had started MPI by then. A rank that ends with 0 before that may as well be
  a program without MPI, whose other ranks need not wait.
* A rank is stopped (SIGSTOP). Ranks that wait for it in an operation give it up; not so where all
  have done their work and end MPI, since one may have more to do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping

from adasumrun import job, process_tree
from adasumrun.counted_time import CountedTime

# Of a thread that a rank has while it starts MPI (cc/bootstrap/start_limit.cc).
_STARTS_MPI = b"adasum_start\n"
_LOOK_EVERY_SECONDS = 3
SILENCE_VARIABLE, _SILENCE_SECONDS = "TF_ADASUM_TIMEOUT_SECONDS", 600.0


class RankWatch:
    """Looks every few seconds.

    Args:
      below: returns the processes below this one.
      silence_seconds: how long a rank may be stopped.
    """

    def __init__(self, below: Callable[[], list[int]], silence_seconds: float):
        self._below = below
        self._silence_seconds = silence_seconds
        self._next = time.monotonic() + _LOOK_EVERY_SECONDS
        self._suspected = ""
        self._time = CountedTime(most=2 * _LOOK_EVERY_SECONDS)
        self._stopped: dict[int, float] = {}  # since when, by self._time

    def why(self) -> str:
        """Returns why the job is to be ended; empty if nothing is known."""
        if time.monotonic() < self._next:
            return ""
        self._next, now = time.monotonic() + _LOOK_EVERY_SECONDS, self._time.seconds()
        found = ((process, process_tree.environment(process)) for process in self._below())
        ranks = {process: each for process, each in found if job.rank(each) is not None}
        waiting = waiting_in_vain(ranks)
        # Twice the same: processes come and go while they are looked at.
        suspected, self._suspected = self._suspected, waiting
        if waiting and waiting == suspected:
            return waiting
        stopped = [process for process in ranks if _is_stopped_rank(process, ranks)]
        self._stopped = {process: self._stopped.get(process, now) for process in stopped}
        for process, since in self._stopped.items():
            if now - since >= self._silence_seconds:
                rank = job.rank(ranks[process])
                return (
                    f"rank {rank} (process {process}) has been stopped for {now - since:.0f} s "
                    f"({SILENCE_VARIABLE})"
                )
        return ""


def silence_seconds(environment: Mapping[str, str]) -> float:
    """Returns after how many seconds a rank is taken for lost; ranks refuse a wrong setting."""
    try:
        return float(environment.get(SILENCE_VARIABLE) or _SILENCE_SECONDS)
    except ValueError:
        return _SILENCE_SECONDS


def waiting_in_vain(ranks: Mapping[int, Mapping[str, str]]) -> str:
    """Returns which ranks start MPI while others of this host are no more; empty if none do.

    Args:
      ranks: processes of ranks on this host, and of what they have started, with the environment.
    """
    alive, waiting, expected = set(), set(), 0
    for process, environment in ranks.items():
        alive.add(job.rank(environment))
        if _starts_mpi(process):
            waiting.add(job.rank(environment))
            expected = job.ranks_on_this_host(environment) or 0
    if not waiting or len(alive) >= expected:
        return ""
    listed = ", ".join(sorted(waiting, key=int))
    who = f"rank {listed} waits" if len(waiting) == 1 else f"ranks {listed} wait"
    return f"another rank has ended before it started MPI, and {who} for it"


def lacks_rank(mpirun: int) -> bool:
    """Whether one of the ranks that mpirun has started on this host is no more."""
    started = process_tree.children().get(mpirun, [])
    found = [process_tree.environment(each) for each in started]
    ranks = [each for each in found if job.rank(each) is not None]
    return len(ranks) < max((job.ranks_on_this_host(each) or 0 for each in ranks), default=1)


def _is_stopped_rank(process: int, ranks: Collection[int]) -> bool:
    """Not what a rank has started and stopped: the rank is what has MPI, or what mpirun started."""
    if not process_tree.is_stopped(process):
        return False
    has_mpi = b"/libmpi" in _content(f"/proc/{process}/maps")
    return has_mpi or process_tree.parent(process) not in ranks


def _starts_mpi(process: int) -> bool:
    folder = f"/proc/{process}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return False  # it has just ended
    return any(_content(f"{folder}/{thread}/comm") == _STARTS_MPI for thread in threads)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
