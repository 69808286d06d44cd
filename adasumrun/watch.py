"""Waits for mpirun, and does meanwhile what time and signals ask for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from adasumrun import notices, process_tree, rank_watch, requests
from adasumrun.lines import say
from adasumrun.requests import Requests

TIMEOUT_EXIT_CODE = 124
ENDING_SECONDS = 15  # that mpirun has from a rank's failure to its own end
_POLL_SECONDS = 0.05


class Ended(NamedTuple):
    """How a job ended.

    Attributes:
      code: the exit code that says so.
      is_final: whether it was asked to end, and is not to be started again.
    """

    code: int
    is_final: bool


class Watch:
    """Waits for a job of one launcher, over all its starts.

    Args:
      asked: what this process is asked for.
      timeout: seconds from now after which the job is to end; None waits for ever.
      grace: seconds that ranks which back up have to end after SIGTERM and SIGHUP.
    """

    def __init__(self, asked: Requests, timeout: int | None, grace: int):
        self._asked = asked
        self._timeout = timeout
        self._grace = grace
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def wait(self, child: subprocess.Popen, said: notices.Notices, elsewhere: bool) -> Ended:
        """Waits for the end of mpirun, or until it is to be ended.

        Args:
          child: mpirun.
          said: what it says.
          elsewhere: whether ranks may be on other hosts.
        """

        def ask(number: signal.Signals) -> bool:
            return requests.ask_ranks(number, child.pid, below(), elsewhere)

        def below() -> list[int]:
            return process_tree.descendants(os.getpid())

        watch = rank_watch.RankWatch(below, rank_watch.silence_seconds(os.environ))
        lost_cause = _LostCause(said, watch, elsewhere)
        while child.poll() is None:
            if self._asked.stop is not None:
                return self._stop(child, ask)
            if why := lost_cause.why():
                say(f"{why}: ended all ranks of this host")
                return Ended(1, is_final=False)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                say(f"ended all ranks after {self._timeout} s (--timeout)")
                return Ended(TIMEOUT_EXIT_CODE, is_final=True)
            if self._asked.saves:
                self._asked.saves = False
                self._save(ask)
            time.sleep(_POLL_SECONDS)
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        if self._asked.stop is not None:  # it came with the end
            return Ended(self._code_of_stop(code), is_final=True)
        return Ended(code, is_final=False)

    def _save(self, ask: Callable[[signal.Signals], bool]) -> None:
        if ask(requests.BACK_UP):
            say("SIGUSR1: asked the ranks to back up and go on")
        else:
            say(
                "SIGUSR1: expected a fit with adasum.callbacks.BackupAndRestore under way. "
                "Received: no rank that waits for it, so nothing is backed up"
            )

    def _stop(self, child: subprocess.Popen, ask: Callable[[signal.Signals], bool]) -> Ended:
        name = self._asked.stop.name
        if self._asked.stop == signal.SIGINT or not ask(requests.BACK_UP_AND_END):
            say(f"ended all ranks on {name}")
            return Ended(128 + self._asked.stop, is_final=True)
        say(f"{name}: asked the ranks to back up and end within {self._grace} s (--grace)")
        end = time.monotonic() + self._grace
        while child.poll() is None:
            if self._asked.insists or time.monotonic() >= end:
                when = "at once" if self._asked.insists else f"{self._grace} s after it (--grace)"
                say(f"{name}: ended all ranks {when}; what was backed up before is left")
                return Ended(128 + self._asked.stop, is_final=True)
            time.sleep(_POLL_SECONDS)
        return Ended(self._code_of_stop(child.returncode), is_final=True)

    def _code_of_stop(self, code: int) -> int:
        """A job that was over by itself is not to be started again by whoever ended it."""
        if code == 0:
            say("the program had ended by itself")
            return 0
        say(f"the ranks have ended on {self._asked.stop.name}")
        return 128 + self._asked.stop


class _LostCause:
    """A job that can't go on, and that mpirun does not end.

    Args:
      said: what mpirun says.
      watch: looks at the ranks.
      elsewhere: whether ranks may be on other hosts.
    """

    def __init__(self, said: notices.Notices, watch: rank_watch.RankWatch, elsewhere: bool):
        self._said = said
        self._watch = watch
        self._elsewhere = elsewhere
        self._end: float | None = None

    def why(self) -> str:
        """Returns why it is to be ended; empty if it is not."""
        mpirun = self._said.take(notices.ENDS_JOB)
        if self._end is None and mpirun and (self._elsewhere or rank_watch.lacks_rank(mpirun)):
            self._end = time.monotonic() + ENDING_SECONDS
        if self._end is not None and time.monotonic() >= self._end:
            return (
                f"a rank failed, and mpirun did not end within {ENDING_SECONDS} s, as where a host "
                "does not answer"
            )
        return self._watch.why()
