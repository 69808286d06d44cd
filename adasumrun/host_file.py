"""What a host file says: the hosts, how many ranks fit on each, and their share of each batch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from adasumrun.hosts import is_here, slots
from adasumrun.lines import counted

# What a line of a host file may say behind a host; the first three are one to Open MPI.
_SLOTS = ("slots", "cpu", "count")
_WORDS = (*_SLOTS, "share")


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
