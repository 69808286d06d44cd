"""Programs that tests start: they find what the test can import, and each has a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ADASUMRUN = [sys.executable, "-m", "adasumrun"]
# In the shell of a rank, by Open MPI's launcher or by Hydra (MPICH, Intel MPI).
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
SIZE = "${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
# How a job ends in which SIGKILL ended a rank: by Open MPI's launcher, and by Hydra.
KILLED = (128 + signal.SIGKILL, signal.SIGKILL)


def environment(**variables: str) -> dict[str, str]:
    """This process' environment and import path, with `variables` besides."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}


def run(
    command: list[str], limit_seconds: float, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command with `variables` in its environment and captures what it says.

    Its exit code is for the caller to check.

    Raises:
        subprocess.TimeoutExpired: after `limit_seconds`.
    """
    return subprocess.run(
        command,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=limit_seconds,
        check=False,
    )


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Starts a command that the test is to end."""
    return subprocess.Popen(command, env=environment())


def running(mark: str) -> list[str]:
    """The command lines of the processes, this one and zombies excepted, that hold `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue  # it has just ended
            if mark.encode() in words:
                found.append(words.decode(errors="replace"))
    return found
