"""Runs one command so that, however it ends, no process that it started is left behind (Linux)."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from adasumrun import job, notices, rank_output
from adasumrun.lines import say
from adasumrun.mpirun import LaunchError

# How long the ranks have to end by themselves after SIGTERM before SIGKILL.
GRACE_SECONDS = 10
# How long after SIGKILL; a process in a system call that does not return does not end.
_STUCK_SECONDS = 10
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_Result = TypeVar("_Result")


def run(
    command: list[str],
    environment: dict[str, str],
    wait: Callable[[subprocess.Popen, notices.Notices], _Result],
    stdin: int = subprocess.DEVNULL,
    drops_noise: bool = False,
    end_signal: signal.Signals = signal.SIGTERM,
) -> tuple[_Result, bool]:
    """Runs a command, as the only work of this process: all its children are ended then.

    Args:
      command: the program and its arguments.
      environment: its environment variables.
      wait: waits for it, and returns when it has ended or is to be ended; gets what it says, too.
      stdin: the file descriptor that it reads its input from.
      drops_noise: whether to drop what TensorFlow writes to stderr before its log level counts.
      end_signal: what ends the command. If it is not SIGTERM, it does not hear SIGTERM at all: a
        scheduler sends that to all processes, and they are to end in this one's order.

    Returns:
      What `wait` returned, and whether mpirun said that it has lost a host.

    Raises:
      LaunchError: if the command can't be started.
    """
    # Processes whose parent ends become children of this one, where they can be found and ended.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    reader, stderr, source = rank_output.start_filter(sys.stderr.fileno(), drops_noise)
    with os.fdopen(source, "rb", buffering=0):  # is closed at the end
        try:
            try:
                child = _start(command, environment, stdin, stderr, end_signal)
            finally:
                os.close(stderr)  # its other writers are the command and what it starts
            said = notices.Notices(source, lambda: launchers(child.pid))
            try:
                result = wait(child, said)
            finally:
                _end(child, reader, end_signal)
        finally:
            _end_reader(reader)
        return result, said.take(notices.LOST_HOST) is not None


def _start(
    command: list[str],
    environment: dict[str, str],
    stdin: int,
    stderr: int,
    end_signal: signal.Signals,
) -> subprocess.Popen:
    parent = os.getpid()

    def in_child() -> None:
        # If this process is killed, its child ends too, and with it the ranks.
        _prctl(_PR_SET_PDEATHSIG, end_signal)
        if end_signal != signal.SIGTERM:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            command,
            env=environment,
            # A terminal's Ctrl-C should reach this process only, which then ends ranks in order.
            start_new_session=True,
            stdin=stdin,
            stderr=stderr,
            preexec_fn=in_child,  # noqa: PLW1509 (this process has no other threads)
        )
    except (OSError, subprocess.SubprocessError) as error:
        cure = "Shorten the environment" if _is_too_long(error) else "Mend that"
        raise LaunchError(
            f"expected {command[0]} to start. Received: {error}. {cure}, and start again"
        ) from error


def _is_too_long(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.E2BIG


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def _end(child: subprocess.Popen, spared: int, end_signal: signal.Signals) -> None:
    """Ends the child and all other descendants but `spared`: politely, then by force."""
    deadline = time.monotonic() + GRACE_SECONDS
    if child.poll() is None:
        child.send_signal(end_signal)
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if child.poll() is None:
        _signal(descendants(os.getpid(), spared), signal.SIGKILL)
    # The command is gone; whoever is still there was adopted and has nobody left to work for.
    _signal(descendants(os.getpid(), spared), signal.SIGTERM)
    while left := descendants(os.getpid(), spared):
        now = time.monotonic()
        if now > deadline + _STUCK_SECONDS:
            _say_left(left)
            return
        if now > deadline:
            _signal(left, signal.SIGKILL)
        _reap()
        time.sleep(_POLL_SECONDS)


def _say_left(left: list[int]) -> None:
    listed = ", ".join(f"{process} in state {''.join(_stat(process)[:1])}" for process in left)
    say(
        f"expected all processes to end within {_STUCK_SECONDS} s of SIGKILL. Received: {listed}. "
        "They are left behind; one in state D waits for a disk or a file server"
    )


def _end_reader(reader: int) -> None:
    """Lets the process that copies stderr finish; all writers are gone, so it finds the end."""
    deadline = time.monotonic() + GRACE_SECONDS
    while reader in descendants(os.getpid()):
        now = time.monotonic()
        if now > deadline + _STUCK_SECONDS:
            return
        if now > deadline:
            _signal([reader], signal.SIGKILL)
        _reap()
        time.sleep(_POLL_SECONDS / 10)


def _signal(processes: list[int], number: int) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def descendants(ancestor: int, spared: int = 0) -> list[int]:
    """Returns the ids of all processes below `ancestor`, without `spared`."""
    of, found, ahead = children(), [], [ancestor]
    while ahead:
        below = [process for process in of.get(ahead.pop(), []) if process != spared]
        found += below
        ahead += below
    return found


def launchers(command: int) -> set[int]:
    """Returns a process and those below it, down to the first rank of each branch."""
    of, found, ahead = children(), {command}, [command]
    while ahead:
        below = of.get(ahead.pop(), [])
        below = [process for process in below if job.rank(environment(process)) is None]
        found.update(below)
        ahead += below
    return found


def children() -> dict[int, list[int]]:
    """Returns those of each process of this host that has any."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found.setdefault(parent(int(entry)), []).append(int(entry))
    return found


def environment(process: int) -> dict[str, str]:
    """Returns the environment that a process was started with; empty if it has ended."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            entries = os.fsdecode(file.read()).split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def is_stopped(process: int) -> bool:
    """Returns whether a signal has stopped a process; not whether a debugger has."""
    return _stat(process)[:1] == ["T"]


def parent(process: int) -> int:
    """Returns the id of a process' parent; -1 if the process has ended."""
    fields = _stat(process)
    return int(fields[1]) if fields else -1


def _stat(process: int) -> list[str]:
    """The state of a process, its parent and so on; empty if it has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            # Behind its name in parentheses, which may hold spaces, and of which Linux keeps 15
            # bytes: the last one may be the half of a letter.
            return stat.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []
