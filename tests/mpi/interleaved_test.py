"""Times of a machine whose state changes by itself are told apart, and by method."""

import itertools

from mpi4py import MPI

from benchmarks.interleaved import interleave_by_state

_METHODS = {"first": lambda: None, "second": lambda: None}


def test_methods_keep_their_order_in_every_state():
    """Also where a state begins during a call of the first: that counts for neither state."""
    asked = itertools.count()  # before and after each call
    found = interleave_by_state(
        MPI.COMM_WORLD, _METHODS, 1, lambda: "near" if next(asked) < 5 else "far", 60
    )
    assert [(state, *seconds) for state, seconds in found.items()] == [
        ("far", "first", "second"),
        ("near", "first", "second"),
    ]
    assert all(times for seconds in found.values() for times in seconds.values())


def test_a_state_without_times_of_every_method_is_left_out():
    """A machine that was "near" during one call alone has no ratio there."""
    asked = itertools.count()
    found = interleave_by_state(
        MPI.COMM_WORLD, _METHODS, 1, lambda: "near" if next(asked) < 2 else "far", 0.5
    )
    assert list(found) == ["far"]
