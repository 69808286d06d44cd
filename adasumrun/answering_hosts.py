"""Which hosts still answer: each is asked to run `true`, by what mpirun reaches it with."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

from adasumrun import hosts

LIMIT_SECONDS = 10
# How Open MPI is told of another program than ssh, in mpirun's arguments and in the environment.
_AGENT_PARAMETERS = ("plm_ssh_agent", "plm_rsh_agent")
_AGENT_VARIABLES = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
# Asks nobody for a password, and waits less than we do.
_SSH = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={LIMIT_SECONDS // 2}"]


class Answers(NamedTuple):
    """What hosts said when they were asked.

    Attributes:
      left: entries of those that answered.
      silent: of the others.
      command: what they were asked by; the host and a command follow it.
    """

    left: list[str]
    silent: list[str]
    command: list[str]


def ask(listed: str, mpi_args: str) -> Answers:
    """Asks all hosts of -H, as mpirun reaches them.

    Args:
      listed: host or host:ranks, with commas between.
      mpi_args: further arguments of mpirun.
    """
    entries, command = listed.split(","), agent(shlex.split(mpi_args))
    left = answering(entries, command)
    return Answers(left, [entry for entry in entries if entry not in left], command)


def agent(mpi_arguments: list[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the command that mpirun reaches hosts with; the host and a command follow it.

    Args:
      mpi_arguments: further arguments of mpirun.
      environment: the caller's variables.
    """
    pairs = itertools.pairwise(mpi_arguments)
    named = [value for word, value in pairs if word in _AGENT_PARAMETERS]
    named += [environment[name] for name in _AGENT_VARIABLES if name in environment]
    words = shlex.split(named[0].partition(":")[0]) if named else []  # of several the first
    return _SSH if words in ([], ["ssh"]) else words


def answering(listed: list[str], command: list[str]) -> list[str]:
    """Returns those of the hosts that answer within LIMIT_SECONDS; this host does.

    Args:
      listed: host or host:ranks, each.
      command: what `agent` returned.
    """
    names = {entry: entry.partition(":")[0] for entry in listed}
    asked = {name: _ask(command, name) for name in {*names.values()} if not hosts.is_here(name)}
    end = time.monotonic() + LIMIT_SECONDS
    well = {name for name, process in asked.items() if _is_well(process, end)}
    return [entry for entry in listed if hosts.is_here(names[entry]) or names[entry] in well]


def _ask(command: list[str], host: str) -> subprocess.Popen | None:
    try:
        return subprocess.Popen(
            [*command, host, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def _is_well(process: subprocess.Popen | None, end: float) -> bool:
    if process is None:
        return False
    try:
        return process.wait(max(0.0, end - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
