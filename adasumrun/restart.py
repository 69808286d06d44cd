"""Starts a job again when it failed: --max-restarts and --min-ranks."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from adasumrun import answering_hosts, hosts
from adasumrun.lines import counted, say
from adasumrun.requests import Requests
from adasumrun.watch import Ended

# A start that ends within so many seconds failed at once; so many in a row are not tried again.
AT_ONCE_SECONDS = 10
MOST_AT_ONCE = 3
RULES = (
    f"It waits 2^k seconds before, where k of the last starts in a row failed within "
    f"{AT_ONCE_SECONDS} s, and gives up when {MOST_AT_ONCE} did. Not started again: a program that "
    "ends with 0, and what Ctrl-C, SIGTERM, SIGHUP or --timeout ended"
)


class Places(NamedTuple):
    """Where ranks start, as -np and -H say it; None leaves it to mpirun."""

    np: int | None
    hosts: str | None


def run(options: argparse.Namespace, start: Callable[[Places, int], Ended], asked: Requests) -> int:
    """Starts the job until it ends well, or is not to be started any more.

    Args:
      options: what the command line said (np, hosts, max_restarts, min_ranks, mpi_args).
      start: starts the ranks for the n-th time, counted from 0, and waits for them.
      asked: what this process is asked for.

    Returns:
      The exit code of the last start; 128 + the signal, if one came between two starts.
    """
    places, codes, at_once = Places(options.np, options.hosts), [], 0
    while True:
        began = time.monotonic()
        ended = start(places, len(codes))
        if ended.is_final or ended.code == 0:
            _say_summary(codes)
            return ended.code
        codes.append(ended.code)
        at_once = at_once + 1 if time.monotonic() - began < AT_ONCE_SECONDS else 0
        why_not = _why_not(len(codes), at_once, options.max_restarts)
        if why_not is None:
            wait = 2**at_once
            say(
                f"start {len(codes)} ended with exit code {described(ended.code)}: restart "
                f"{len(codes)} of {options.max_restarts} in {wait} s"
            )
            asked.sleep(wait)
            places, why_not = _places_left(options, asked)
        if asked.stop is not None:
            say(f"not started again on {asked.stop.name}")
            return 128 + asked.stop
        if why_not is not None:
            _say_end(codes, why_not, options.max_restarts)
            return ended.code


def described(code: int) -> str:
    """Returns an exit code with the signal that it stands for: "137 (SIGKILL)"."""
    try:
        return f"{code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return str(code)


def _why_not(num_failed: int, at_once: int, max_restarts: int) -> str | None:
    if at_once >= MOST_AT_ONCE:
        return f"{at_once} starts in a row failed within {AT_ONCE_SECONDS} s"
    if num_failed > max_restarts:
        return f"--max-restarts={max_restarts}"
    return None


def _places_left(options: argparse.Namespace, asked: Requests) -> tuple[Places, str | None]:
    """Returns where to start again, and why that is too little, if it is."""
    places = Places(options.np, options.hosts)
    if not options.hosts or asked.stop is not None:
        return places, None
    left, silent, _ = answering_hosts.ask(options.hosts, options.mpi_args)
    if not silent:
        return places, None
    wanted = options.np or hosts.slots(options.hosts)
    fitting = _fitting(wanted, hosts.slots(options.hosts), hosts.slots(",".join(left)), left)
    least = options.min_ranks or wanted
    said = f"no answer from {', '.join(silent)} within {answering_hosts.LIMIT_SECONDS} s"
    if fitting < least:
        option = f"--min-ranks={least}" if options.min_ranks else "all, without --min-ranks"
        return places, f"{said}; {fitting} of {wanted} ranks have a place, expected {option}"
    say(f"{said}: goes on with {counted(fitting, 'rank')} on {','.join(left)}")
    return Places(fitting, ",".join(left)), None


def _fitting(wanted: int, slots: int, slots_left: int, left: list[str]) -> int:
    """As many as slots; as many for each slot as before where there were more ranks than slots."""
    if not left:
        return 0
    return min(wanted, max(slots_left, wanted * slots_left // slots))


def _say_summary(codes: list[int]) -> None:
    if codes:
        restarts = counted(len(codes), "restart")
        say(f"ended after {restarts} (exit codes before: {_listed(codes)})")


def _say_end(codes: list[int], why: str, max_restarts: int) -> None:
    if max_restarts:
        starts = counted(len(codes), "start")
        say(f"not started again: {why}. Exit codes of {starts}: {_listed(codes)}")


def _listed(codes: list[int]) -> str:
    return ", ".join(map(described, codes))
