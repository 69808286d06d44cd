"""Repetitions of several methods in turns, so that all see the same disturbances."""

import time
from collections.abc import Callable

from mpi4py import MPI


def interleave(
    comm: MPI.Comm,
    methods: dict[str, Callable | tuple[Callable, Callable]],
    repetitions: int,
) -> dict[str, list[float]]:
    """Seconds of each repetition of each method: the time of the slowest rank, from a barrier on.

    Before each timed call stands one that is not timed, so that every method finds the caches as
    it leaves them itself, and not as the one before it in turn does.

    Args:
        comm: the ranks; all call this with the same methods.
        methods: functions without arguments, or pairs of one and of another that writes its
            operands anew before each call, which is not timed.
        repetitions: how often each is timed.

    Returns:
        One list of seconds per method, equal on all ranks.
    """
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, how in methods.items():
            method, renew = how if isinstance(how, tuple) else (how, _nothing)
            renew()
            method()
            renew()
            comm.Barrier()
            begin = time.perf_counter()
            method()
            seconds[name].append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    return seconds


def _nothing() -> None:
    pass
