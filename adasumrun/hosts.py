"""How many ranks fit where: this host's cores, the slots of -H, a scheduler's allocation."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Mapping

from adasumrun import control_groups

# In a scheduler's allocation it says how many ranks fit, and not this host's cores.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
SLURM_PLACES = "SLURM_TASKS_PER_NODE"
_THIS_HOST = ("localhost", "127.0.0.1")
# What begins mpirun's options that name hosts, or a file of them: Open MPI's, then Hydra's.
_HOST_OPTIONS = ("-H", "-host", "-hostfile", "-machinefile", "-default-hostfile", "-hosts", "-f")


def available_cores() -> int:
    """Returns how many cores this process may use, 1 at least.

    Those that it may run on, or as many as its control groups pay for if these are fewer: a
    container with 2 CPUs of 64 runs on each of the 64, and is stopped when it has had its share.
    """
    paid_for = max(1, control_groups.cpu_limit())
    return math.ceil(min(len(os.sched_getaffinity(0)), paid_for))


def physical_cores() -> int:
    """Returns the number of cores of the processors that this process may run on.

    Threads of one core count once.
    """
    cores = set()
    for processor in os.sched_getaffinity(0):
        path = f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        try:
            with open(path) as siblings:
                cores.add(siblings.read().strip())
        except OSError:
            cores.add(str(processor))
    return len(cores)


def scheduler() -> str | None:
    """Returns the variable by which a scheduler says that this is its allocation, or None."""
    return next((name for name in _SCHEDULERS if name in os.environ), None)


def slurm_places(environment: Mapping[str, str]) -> int | None:
    """Returns how many ranks fit into Slurm's allocation, or None: its tasks, not their cores.

    Args:
      environment: says it as "2(x3),1": two tasks on each of three nodes, and one.
    """
    if "SLURM_JOB_ID" not in environment:
        return None
    nodes = re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", environment.get(SLURM_PLACES, ""))
    return sum(int(tasks) * int(number or 1) for tasks, number in nodes) or None


def slots(hosts: str) -> int:
    """Returns how many ranks the hosts take, as mpirun counts: one, unless it says host:ranks."""
    return sum(int(host.partition(":")[2] or 1) for host in hosts.split(","))


def names_hosts(words: list[str]) -> bool:
    """Returns whether arguments of mpirun say on which hosts the ranks run.

    Args:
      words: the arguments, with one or two dashes before an option, its value apart or after =.
    """
    options = ("-" + word.lstrip("-").partition("=")[0] for word in words if word[0:1] == "-")
    # A parameter of Open MPI, by --mca or --prtemca, can name a file too.
    return any(option in _HOST_OPTIONS for option in options) or any(
        word.endswith("default_hostfile") for word in words
    )


def is_here(name: str) -> bool:
    """Returns whether a host is this one."""
    return name in (*_THIS_HOST, socket.gethostname())


def oversubscribed(ranks: int | None, hosts: str | None) -> bool:
    """Returns whether there are more ranks than places, so that mpirun must be told to share them.

    Args:
      ranks: number of ranks; None leaves it to mpirun, which then starts what fits.
      hosts: what -H says, host[:ranks],...; None is this host, or the scheduler's allocation.
    """
    if ranks is None:
        return False
    if hosts:
        return ranks > slots(hosts)
    return not scheduler() and ranks > physical_cores()


def ranks_on_this_host(ranks: int | None, hosts: str | None) -> int | None:
    """Returns how many of the ranks run on this host; None if only mpirun knows.

    Args:
      ranks: number of ranks; None leaves it to mpirun.
      hosts: what -H says, host[:ranks],...; None is this host, or the scheduler's allocation.
    """
    if scheduler():
        return None
    if hosts:
        if not all(is_here(host.partition(":")[0]) for host in hosts.split(",")):
            return None
    return ranks
