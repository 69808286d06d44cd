"""Optimizers of one step must exchange after as many batches where rows are counted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import keras

from tf_adasum.collectives.refusals import refusal


class StepRounds(threading.local):
    """After how many calls the optimizer exchanges that this thread's step applies first.

    Rows are counted once for all optimizers, and anew when one has exchanged.
    """

    _is_in_step = False
    _first: tuple[keras.optimizers.Optimizer, int | None] | None = None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Inside, this thread runs, or traces, a step."""
        self._is_in_step, self._first = True, None
        try:
            yield
        finally:
            self._is_in_step, self._first = False, None

    def check(self, optimizer: keras.optimizers.Optimizer, num_calls: int | None) -> None:
        """Raises ValueError where another one of the step exchanges after another number of calls.

        Args:
            optimizer: that is applied.
            num_calls: after how many calls it exchanges; None if that changes.
        """
        if not self._is_in_step:
            return
        self._first = first, its = self._first or (optimizer, num_calls)
        if first is not optimizer and (its is None or num_calls != its):
            told = [
                f"{name!r} after {'numbers of its own' if number is None else number}"
                for name, number in ((first.name, its), (optimizer.name, num_calls))
            ]
            expected = "optimizers of a step to exchange after as many batches, with batch_share"
            advice = "Give them the same accumulate and steps_per_sync, or leave out batch_share."
            raise ValueError(refusal(expected, " and ".join(told), advice))
