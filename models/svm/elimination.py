"""When samples are eliminated, and when the eliminated ones are looked at again.

A sample at a bound whose f lies outside [b_up, b_low] can be in no violating pair now, and
probably in none later. Without it columns are shorter, and more of them fit into memory. Since
"probably" is not "certainly", f of the eliminated ones is computed anew once the others are
optimal, and training goes on until all are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """How eager elimination is.

    Args:
        period: iterations from one elimination to the next, as a share of all samples; infinite
            for none.
        early: how many times the tolerance the gap of the active samples may be when the
            eliminated ones are looked at for the first time: so late that few come back, and so
            early that no work is wasted on an optimum that is not the whole one's.
        again: whether samples are also eliminated after that.
    """

    period: float
    early: float = 1.0
    again: bool = True


POLICIES = {
    "none": Policy(math.inf),
    "aggressive": Policy(0.02, early=10.0),
    "lazy": Policy(0.25, again=False),
}


# Of the active samples: rows and cached columns of all others are copied for it.
LEAST_SHARE = 0.2


class Elimination:
    """Follows a training and says what is due; the same on every rank.

    Args:
        policy: how eager it is.
        samples: of all ranks.
        tolerance: the largest b_low - b_up of the optimum.
    """

    def __init__(self, policy: Policy, samples: int, tolerance: float):
        self._policy, self._tolerance = policy, tolerance
        self._period = max(1.0, policy.period * samples)
        self._next = self._period
        self.reconstructions = 0
        self.eliminated = 0

    def largest_gap(self) -> float:
        """At which b_low - b_up the active samples count as optimal."""
        is_early = self.eliminated and not self.reconstructions
        return self._tolerance * (self._policy.early if is_early else 1.0)

    def is_due(self, iteration: int) -> bool:
        """Whether samples are to be eliminated before this iteration."""
        return iteration >= self._next

    def is_worthwhile(self, active: int, leaving: int) -> bool:
        """Whether enough samples leave, of all ranks, for the copy that it takes."""
        return leaving > LEAST_SHARE * active

    def postpone(self, iteration: int) -> None:
        """Takes down that too few samples would have left."""
        self._next = iteration + self._period

    def note_eliminated(self, iteration: int, eliminated: int) -> None:
        """Takes down an elimination.

        Args:
            iteration: before which it was.
            eliminated: how many samples of all ranks are not active now.
        """
        self.eliminated = eliminated
        self.postpone(iteration)

    def note_reconstructed(self, iteration: int) -> None:
        """Takes down that all samples are active again, their f exact: a good time to eliminate."""
        self.eliminated = 0
        self.reconstructions += 1
        self._next = iteration if self._policy.again else math.inf
