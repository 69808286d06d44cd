"""Repetitions of several methods in turns, so that all see the same disturbances."""

import time
from collections.abc import Callable

from mpi4py import MPI


def interleave(
    comm: MPI.Comm, methods: dict[str, Callable], repetitions: int
) -> dict[str, list[float]]:
    """Seconds of each repetition of each method: the time of the slowest rank, from a barrier on.

    Args:
        comm: the ranks; all call this with the same methods.
        methods: functions without arguments.
        repetitions: how often each runs, after one run that is not counted.

    Returns:
        One list of seconds per method, equal on all ranks.
    """
    for method in methods.values():
        method()
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, method in methods.items():
            comm.Barrier()
            begin = time.perf_counter()
            method()
            seconds[name].append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    return seconds
