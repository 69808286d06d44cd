"""Optimizers of one step must exchange after as many calls where rows are counted."""

from __future__ import annotations

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.replicas_flag import ReplicasFlag


class StepRounds:
    """After how many calls the optimizer exchanges that the step under way applies first.

    Rows are counted once for all optimizers, and anew when one has exchanged. One for all local
    replicas, whose steps apply the same optimizers, and merge in other threads.

    Args:
        steps: on while a replica is in a step.
    """

    def __init__(self, steps: ReplicasFlag):
        self._steps = steps
        self._first: tuple[keras.optimizers.Optimizer, int | None] | None = None

    def begin(self) -> None:
        """Is told that a local replica is about to begin a step."""
        if not self._steps.on:
            self._first = None

    def check(self, optimizer: keras.optimizers.Optimizer, num_calls: int | None) -> None:
        """Raises ValueError where another one of the step exchanges after another number of calls.

        Args:
            optimizer: that is applied.
            num_calls: after how many calls it exchanges; None if that changes.
        """
        if not self._steps.on:
            return
        self._first = first, its = self._first or (optimizer, num_calls)
        if first is not optimizer and (its is None or num_calls != its):
            told = [
                f"{name!r} after {'numbers of its own' if number is None else number}"
                for name, number in ((first.name, its), (optimizer.name, num_calls))
            ]
            expected = "optimizers of a step to exchange after as many calls, with batch_share"
            advice = "Let them (accumulate, steps_per_sync), or leave out batch_share."
            raise ValueError(refusal(expected, " and ".join(told), advice))
