"""How many ranks fit where: this host's cores, the slots of -H, a scheduler's allocation."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Iterable, Mapping

from adasumrun import control_groups

# In a scheduler's allocation it says how many ranks fit, and not this host's cores.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
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
    """Returns the number of cores behind those processors: threads of one core count once."""
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


def slots(hosts: str) -> int:
    """Returns how many ranks the hosts take, as mpirun counts: one, unless it says host:ranks."""
    counts = (host.rpartition(":")[2] for host in hosts.split(","))
    return sum(int(count) if count.isdigit() else 1 for count in counts)


def hosts_of_lines(lines: Iterable[str]) -> str:
    """Returns the hosts of a host file as -H takes them: host:ranks,...

    Args:
      lines: `host`, `host:ranks` or `host slots=ranks` each, with further words of Open MPI's
        (max_slots=...) left out; blank lines and what follows a # are skipped.

    Raises:
      ValueError: if there is no host, or slots= is not followed by a number.
    """
    hosts = []
    for line in lines:
        name, words = _words_of(line)
        for word in words:
            if word.startswith("slots="):
                name += ":" + _slots_of(word, line)
        hosts += [name] if name else []
    if not hosts:
        raise ValueError("expected a host on some line. Received: none")
    return ",".join(hosts)


def _words_of(line: str) -> tuple[str, list[str]]:
    """A line's host, empty where there is none, and what it says of it."""
    # As mpirun reads it, there may be spaces around the =.
    name, *words = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split() or [""]
    return name, words


def _slots_of(word: str, line: str) -> str:
    number = word.removeprefix("slots=")
    if not number.isdecimal():
        raise ValueError(f"expected slots=RANKS. Received: {line.strip()!r}")
    return number


def shares_of_lines(lines: Iterable[str]) -> dict[str, float]:
    """Returns what share of each batch every rank of a host gets, where a host file says so.

    Args:
      lines: as `hosts_of_lines` takes them; `share=NUMBER` is a word of a line. Hosts without one
        have 1 where others have any.

    Raises:
      ValueError: if share= is not followed by a number above 0.
    """
    shares, are_given = {}, False
    for line in lines:
        name, words = _words_of(line)
        if name:
            given = [word.removeprefix("share=") for word in words if word.startswith("share=")]
            shares[name.partition(":")[0]] = _share_of(given[-1], line) if given else 1.0
            are_given = are_given or bool(given)
    return shares if are_given else {}


def _share_of(number: str, line: str) -> float:
    try:
        share = float(number)
    except ValueError:
        share = 0.0
    if not 0 < share < float("inf"):
        raise ValueError(f"expected share=NUMBER, above 0. Received: {line.strip()!r}")
    return share


def shares_of_ranks(ranks: int | None, hosts: str, shares: Mapping[str, float]) -> list[float]:
    """Returns the share of each rank, as mpirun fills the hosts: one slot after the other.

    Args:
      ranks: number of ranks; None for as many as slots.
      hosts: what -H says, host[:ranks],...
      shares: what `shares_of_lines` returned.

    Raises:
      ValueError: if there are more ranks than slots, so that mpirun puts them where it likes.
    """
    of_slots = [
        shares[entry.partition(":")[0]] for entry in hosts.split(",") for _ in range(slots(entry))
    ]
    if ranks is not None and ranks > len(of_slots):
        raise ValueError(
            f"expected slots for all ranks where hosts have share=. Received: {ranks} ranks, "
            f"{len(of_slots)} slots"
        )
    return of_slots[:ranks]


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
