"""What adasumrun is asked for by signals, and how it asks the ranks to save what they have."""

from __future__ import annotations

import os
import signal
import time

from adasumrun import job, process_tree

# What ranks hear, by `adasum.callbacks.BackupAndRestore`. A process without a handler ignores
# BACK_UP, and BACK_UP_AND_END ends it. Open MPI's mpirun hands both on to all ranks.
BACK_UP = signal.SIGURG
BACK_UP_AND_END = signal.SIGUSR2
# Set in every rank: how often the job has been started again.
RESTARTS_VARIABLE = "TF_ADASUM_RESTARTS"
EXIT_CODE = 128 + signal.SIGTERM  # of ranks that have backed up and end

_POLL_SECONDS = 0.05


class Requests:
    """What this process was asked for; as a context it hears the signals, and only notes them.

    Attributes:
      stop: the first of SIGINT, SIGTERM and SIGHUP that came, or None.
      insists: whether another one came after it.
      saves: whether SIGUSR1 came; whoever acts on it sets it back.
    """

    def __init__(self) -> None:
        self.stop: signal.Signals | None = None
        self.insists = False
        self.saves = False

    def __enter__(self) -> Requests:
        heard = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        # A terminal or an ssh that was closed; who starts the job by nohup wants it to go on.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            heard.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float) -> None:
        """Waits, but not on when the job is to stop."""
        end = time.monotonic() + seconds
        while self.stop is None and time.monotonic() < end:
            time.sleep(min(_POLL_SECONDS, seconds))

    def _note(self, number: int, frame: object) -> None:
        if number == signal.SIGUSR1:
            self.saves = True
        elif self.stop is None:
            self.stop = signal.Signals(number)
        else:
            self.insists = True


def ask_ranks(number: signal.Signals, mpirun: int, below: list[int], elsewhere: bool) -> bool:
    """Sends a signal to the ranks of this host that wait for it, or by mpirun where there are none.

    One rank that hears it is enough, as they decide in common. What mpirun hands on also reaches
    processes that ranks have started, which may end by it.

    Args:
      number: BACK_UP or BACK_UP_AND_END.
      mpirun: its process id.
      below: the processes below this one.
      elsewhere: whether ranks may be on other hosts.

    Returns:
      Whether a rank waits for it, as far as this host knows.
    """
    ranks = [each for each in below if job.rank(process_tree.environment(each)) is not None]
    asked = [rank for rank in ranks if catches(rank, number)]
    if elsewhere and not ranks:
        asked = [mpirun]
    for process in asked:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass  # it has just ended
    return bool(asked)


def catches(process: int, number: int) -> bool:
    """Returns whether a process has a handler for a signal."""
    try:
        # Bytes, as the process' name may be no text.
        with open(f"/proc/{process}/status", "rb") as status:
            caught = next((line for line in status if line.startswith(b"SigCgt:")), b"SigCgt: 0")
    except OSError:
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
