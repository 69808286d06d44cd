"""What each rank does with a command of rank 0's, and what it says came of it.

A command is a call that is valid, or one that has to be refused, on all ranks alike; or a split or
a close. Numbers stand for communicators: 0 is the world.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tf_adasum as adasum
from tests.random_calls import calls

# What comes back is the same on all ranks, bit by bit.
SAME_EVERYWHERE = ("allreduce", "allreduce_arrays", "allgather", "broadcast")


class Rank:
    """This rank's communicators, and what it does with commands."""

    def __init__(self):
        self._communicators: dict[int, adasum.Communicator] = {0: adasum.world()}

    def carry_out(self, command: dict[str, Any]) -> dict[str, Any]:
        """Does what the command says, if this rank has part in it.

        Returns:
            "came": nothing, or what this rank's call raised, of which class; "checksum": of the
            results; "wrong": why they are none, or why the ranks could not go on.
        """
        outcome = {"came": None, "checksum": 0, "wrong": ""}
        if adasum.rank() not in command["members"]:
            return outcome
        try:
            getattr(self, "_" + command["do"])(command, outcome)
        except Exception as error:  # of the check, or of what has to work
            outcome["wrong"] = f"{type(error).__name__}: {error}"
        return outcome

    def _call(self, command, outcome) -> None:
        communicator = self._communicators[command["communicator"]]
        results = calls.carry_out(command["call"], communicator)
        calls.check(command["call"], results, communicator)
        if command["call"]["collective"] in SAME_EVERYWHERE:
            outcome["checksum"] = calls.checksum(results)

    def _refused(self, command, outcome) -> None:
        """Every rank makes the call of its own; a rank whose call is null makes none.

        A rank that no other has heard of comes to the next operation: a barrier.
        """
        communicator = self._communicators[command["communicator"]]
        call = command["calls"][communicator.rank]
        if call is not None:
            outcome["came"] = _error(lambda: calls.carry_out(call, communicator))
        if command["leaves"] == communicator.rank:
            late = _error(lambda: adasum.barrier(communicator, "the next operation"))
            outcome["came"] = outcome["came"] or late
            if late is None:
                raise AssertionError("Expected the others to wait elsewhere. Received: a barrier.")
        self._go_on(communicator)

    def _go_on(self, communicator: adasum.Communicator) -> None:
        ones = np.ones(2)
        adasum.allreduce_arrays(ones, "sum", communicator, "afterwards")
        np.testing.assert_array_equal(ones, np.full(2, communicator.size))

    def _split(self, command, outcome) -> None:
        communicator = self._communicators[command["communicator"]]
        color, key = command["colors"][communicator.rank], command["keys"][communicator.rank]
        options = command["options"][communicator.rank]
        parts = []
        outcome["came"] = _error(
            lambda: parts.append(communicator.split(color, key, options=options))
        )
        if parts and parts[0] is not None:
            number = command["numbers"][str(color)]
            members = command["groups"][str(color)]
            assert parts[0].size == len(members)
            assert members[parts[0].rank] == adasum.rank()
            self._communicators[number] = parts[0]
        self._go_on(communicator)

    def _close(self, command, outcome) -> None:
        """One rank leaves; the others come to an operation, and hear of it."""
        communicator = self._communicators.pop(command["communicator"])
        if communicator.rank == command["leaves"]:
            communicator.close()
        outcome["came"] = _error(lambda: calls.carry_out(command["call"], communicator))
        communicator.close()

    def _reset(self, command, outcome) -> None:
        """Without what was made by splits, some of it dropped and some closed."""
        del command, outcome
        for number in [number for number in self._communicators if number > 0]:
            communicator = self._communicators.pop(number)
            if number % 2:
                communicator.close()
        self._go_on(self._communicators[0])


def _error(call) -> dict[str, str] | None:
    """The class and the text of what a call raises."""
    try:
        call()
    except (ValueError, TypeError, RuntimeError, tf.errors.OpError) as error:
        return {
            "class": type(error).__name__,
            "message": getattr(error, "message", None) or str(error),
        }
    return None
