"""How many ranks fit where: this host's cores, the slots of -H, a scheduler's allocation."""

from __future__ import annotations

import difflib
import math
import os
import re
import socket
from collections.abc import Iterable, Mapping

from adasumrun import control_groups

# In a scheduler's allocation it says how many ranks fit, and not this host's cores.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
_THIS_HOST = ("localhost", "127.0.0.1")
# What a line of a host file may say behind a host; the first three are one to Open MPI.
_SLOTS = ("slots", "cpu", "count")
_WORDS = (*_SLOTS, "share")
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
    return sum(int(host.partition(":")[2] or 1) for host in hosts.split(","))


def hosts_of_lines(lines: Iterable[str]) -> str:
    """Returns the hosts of a host file as -H takes them: host:ranks,...

    Args:
      lines: `host`, `host:ranks` or `host slots=ranks` each, with further words of MPI's
        (max_slots=...) left out; blank lines and what follows a # or // are skipped.

    Raises:
      ValueError: if there is no host, a line has several, slots= has no number, or a word is
        surely a slip.
    """
    hosts = []
    for line in lines:
        name, words = _words_of(line)
        if "," in name:
            raise ValueError(f"expected one host on a line. Received: {line.strip()!r}")
        for word in words:
            if _is_slip(word):
                raise ValueError(
                    "expected words such as slots=RANKS and share=NUMBER behind a host. "
                    f"Received: {word!r} in {line.strip()!r}"
                )
            if word.partition("=")[0] in _SLOTS:
                name += ":" + _slots_of(word, line)
        hosts += [name] if name else []
    if not hosts:
        raise ValueError("expected a host on some line. Received: none")
    return ",".join(hosts)


def _words_of(line: str) -> tuple[str, list[str]]:
    """A line's host, empty where there is none, and what it says of it."""
    # As mpirun reads it, there may be spaces around the =.
    said = re.sub(r"\s*=\s*", "=", re.split("#|//", line)[0])
    name, *words = said.split() or [""]
    return name, words


def _is_slip(word: str) -> bool:
    """Whether it says nothing, or almost slots= or share=. Every MPI has more words of its own."""
    key, is_there, _ = word.partition("=")
    meant = difflib.get_close_matches(key.lower(), ("slots", "share"), cutoff=0.8)
    return not is_there or (key not in _WORDS and meant != [])


def _slots_of(word: str, line: str) -> str:
    key, _, number = word.partition("=")
    if not number.isdecimal():
        raise ValueError(f"expected {key}=RANKS. Received: {line.strip()!r}")
    return number


def shares_of_lines(lines: Iterable[str]) -> dict[str, float]:
    """Returns what share of each batch every rank of a host gets, where a host file says so.

    Args:
      lines: as `hosts_of_lines` takes them; `share=NUMBER` is a word of a line. Hosts without one
        have 1 where others have any.

    Raises:
      ValueError: if share= is not followed by a number above 0; or if a host has two lines, whose
        ranks mpirun numbers one after the other, whatever stands between the lines. This host may
        have several names, in lines that follow each other.
    """
    shares, are_given, twice = {}, False, None
    for line in lines:
        said, words = _words_of(line)
        if said:
            name = said.partition(":")[0]
            was_here = is_here(name) and any(map(is_here, shares))
            if name in shares or (was_here and not is_here(next(reversed(shares)))):
                twice = name
            given = [word.removeprefix("share=") for word in words if word.startswith("share=")]
            shares[name] = _share_of(given[-1], line) if given else 1.0
            are_given = are_given or bool(given)
    if are_given and twice is not None:
        raise ValueError(
            f"expected one line for each host where any has share=. Received: {twice} again"
        )
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
            "expected slots for all ranks where hosts have share=. Received: "
            f"{counted(ranks, 'rank')}, {counted(len(of_slots), 'slot')}"
        )
    return of_slots[:ranks]


def counted(number: int, what: str) -> str:
    """Returns "1 rank", "2 ranks"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


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
