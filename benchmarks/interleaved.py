"""Repetitions of several methods in turns, so that all see the same disturbances."""

import time
from collections.abc import Callable

from mpi4py import MPI

# A function without arguments, or a pair of one and of another that writes its operands anew before
# each call, which is not timed.
Method = Callable | tuple[Callable, Callable]


def interleave(
    comm: MPI.Comm, methods: dict[str, Method], repetitions: int
) -> dict[str, list[float]]:
    """Seconds of each repetition of each method: the time of the slowest rank, from a barrier on.

    Before each timed call stands one that is not timed, so that every method finds the caches as
    it leaves them itself, and not as the one before it in turn does.

    Args:
        comm: the ranks; all call this with the same methods.
        methods: what is timed, by name.
        repetitions: how often each is timed.

    Returns:
        One list of seconds per method, equal on all ranks.
    """
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, method in methods.items():
            seconds[name].append(_time(comm, method))
    return seconds


def interleave_by_state(
    comm: MPI.Comm,
    methods: dict[str, Method],
    repetitions: int,
    state: Callable[[], str],
    most_seconds: float,
) -> dict[str, dict[str, list[float]]]:
    """As interleave, apart for each state of the machine, which changes by itself.

    Args:
        comm: the ranks; all call this with the same methods.
        methods: what is timed, by name.
        repetitions: how often each is timed in each state, if that state comes so often.
        state: returns the machine's state, the same on all ranks; all call it. Asked before and
            after each timed call, which counts if the two are one.
        most_seconds: when to stop though a state came less often.

    Returns:
        By state, what interleave returns; only states in which every method was timed, some more
        often than others.
    """
    found: dict[str, dict[str, list[float]]] = {}
    end = time.monotonic() + most_seconds
    while comm.bcast(time.monotonic() < end):
        for name, method in methods.items():
            before = state()
            seconds = _time(comm, method)
            if state() == before:
                found.setdefault(before, {each: [] for each in methods})[name].append(seconds)
        counts = [len(each) for times in found.values() for each in times.values()]
        if len(counts) == 2 * len(methods) and min(counts) >= repetitions:
            break
    return {key: times for key, times in sorted(found.items()) if all(times.values())}


def interleave_case(
    comm: MPI.Comm,
    case: str,
    methods: dict[str, Method],
    repetitions: int,
    state: Callable[[], str] | None,
    most_seconds: float,
) -> dict[str, dict[str, list[float]]]:
    """What interleave returns, by the names of the case's variants: one for each state, if asked.

    Args:
        comm: the ranks; all call this with the same methods.
        case: its name.
        methods: what is timed, by name.
        repetitions: how often each is timed.
        state: as for interleave_by_state; None where it does not matter.
        most_seconds: as for interleave_by_state.
    """
    if state is None:
        return {case: interleave(comm, methods, repetitions)}
    found = interleave_by_state(comm, methods, repetitions, state, most_seconds)
    return {f"{case}, {name}": seconds for name, seconds in found.items()}


def _time(comm: MPI.Comm, method: Method) -> float:
    run, renew = method if isinstance(method, tuple) else (method, _nothing)
    renew()
    run()
    renew()
    comm.Barrier()
    begin = time.perf_counter()
    run()
    return comm.allreduce(time.perf_counter() - begin, MPI.MAX)


def _nothing() -> None:
    pass
