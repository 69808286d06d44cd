"""One rank's share of the dual problem, and which of its samples violate optimality most.

    minimise ½ Σ_ij a_i a_j y_i y_j K_ij - Σ_i a_i,   0 <= a_i <= C,   Σ_i a_i y_i = 0
    f_i = Σ_j a_j y_j K_ij - y_i
    I_up:  a_i y_i can grow     (y = 1 and a < C, or y = -1 and a > 0)
    I_low: a_i y_i can shrink   (y = 1 and a > 0, or y = -1 and a < C)
    optimal if  b_low = max of f over I_low  <=  b_up = min of f over I_up

f is kept twice, +∞ where a sample is not in I_up and -∞ where it is not in I_low: a change of f is
added to both without asking, and the worst sample is a plain argmin or argmax, which NumPy
vectorises. Every sample is in one of the sets at least, so f itself is never lost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

CANDIDATE_FIELDS = 5


class Candidate(NamedTuple):
    """The sample that violates most, of one rank or of all.

    Attributes:
        f: f of it; infinite if there is none.
        number: of the sample, in the whole data set; -1 if there is none.
        alpha: its a.
        label: its y, 1 or -1.
        length: of its row's message (models.svm.kernels).
        rank: its owner.
    """

    f: float
    number: int
    alpha: float
    label: float
    length: int
    rank: int


class WorkingSet:
    """f, a and y of one rank's samples, the active ones first.

    Args:
        labels: float64 [n], 1 or -1.
        numbers: int64 [n], of the samples in the whole data set.
        lengths: int64 [n], of the samples' messages.
        cost: C.

    Attributes:
        active: how many are active.
        alpha, labels, numbers: of all, in the order that eliminations leave.
    """

    def __init__(self, labels: np.ndarray, numbers: np.ndarray, lengths: np.ndarray, cost: float):
        self.labels, self.numbers = labels.astype(np.float64), numbers.astype(np.int64)
        self._lengths, self._cost = lengths.copy(), cost
        self.alpha = np.zeros(len(labels))
        # What f and a were when all samples were active last.
        self._base_f, self._base_alpha = -self.labels, self.alpha.copy()
        self._scratch = np.empty(len(labels))
        self._both = np.empty((2, len(labels)))
        self._fill(slice(None), -self.labels)
        self._set_active(len(labels))

    def candidates(self, out: np.ndarray) -> tuple[int, int]:
        """Finds the worst active sample of I_up and of I_low.

        Args:
            out: float64 [2, CANDIDATE_FIELDS], receives a `Candidate` each, without its rank.

        Returns:
            Their positions here, meaningless where there is none.
        """
        if not self.active:
            out[:] = [[np.inf, -1, 0, 0, 0], [-np.inf, -1, 0, 0, 0]]
            return 0, 0
        up, low = int(self._up.argmin()), int(self._low.argmax())
        for side, at in ((0, up), (1, low)):
            out[side] = (
                self._both[side, at],
                self.numbers[at],
                self.alpha[at],
                self.labels[at],
                self._lengths[at],
            )
        return up, low

    def move(self, step: float, of_up: np.ndarray, of_low: np.ndarray) -> None:
        """Adds step (K_up - K_low) to f of the active ones.

        Args:
            step: by how much a y of the worst of I_up grows, and that of I_low shrinks.
            of_up: float64 [active], K between each active sample and the worst of I_up.
            of_low: the same of I_low.
        """
        change = np.subtract(of_up, of_low, out=self._change)
        change *= step
        self._up += change
        self._low += change

    def set_alpha(self, at: int, alpha: float) -> None:
        """Sets one sample's a, and so the sets that it belongs to."""
        f = self._both[0, at] if math.isfinite(self._both[0, at]) else self._both[1, at]
        self.alpha[at] = alpha
        can_rise, can_fall = alpha < self._cost, alpha > 0
        in_up, in_low = (can_rise, can_fall) if self.labels[at] > 0 else (can_fall, can_rise)
        self._both[0, at] = f if in_up else np.inf
        self._both[1, at] = f if in_low else -np.inf

    def kept(self, b_up: float, b_low: float) -> np.ndarray:
        """Which active samples may still take part in a worst pair, bool [active].

        One at a bound is in one of the sets only. It can't be in a violating pair while its f is
        beyond the worst of the other set: above b_low in I_up, below b_up in I_low.
        """
        only_up, only_low = np.isneginf(self._low), np.isposinf(self._up)
        return ~((only_up & (self._up > b_low)) | (only_low & (self._low < b_up)))

    def narrow(self, order: np.ndarray, active: int) -> None:
        """Puts the active sample order[k] at k, and leaves the first `active` of them active."""
        of_samples = (self.alpha, self.labels, self.numbers, self._lengths, *self._both)
        for values in (*of_samples, self._base_f, self._base_alpha):
            values[: len(order)] = values[order]
        self._set_active(active)

    def changes(self) -> np.ndarray:
        """By how much a y has changed since all samples were active last, float64 [n]."""
        return (self.alpha - self._base_alpha) * self.labels

    def widen(self, change: np.ndarray) -> None:
        """Makes all samples active again.

        Args:
            change: float64 [n - active], Σ_j changes_j K_ij over the samples of all ranks, for
                those that were not active.
        """
        rest = slice(self.active, None)
        self._fill(rest, self._base_f[rest] + change)
        self._set_active(len(self.alpha))
        self._base_f[:], self._base_alpha[:] = self.f(), self.alpha

    def _fill(self, part: slice, f: np.ndarray) -> None:
        """Sets f of some samples, by the sets that they belong to."""
        can_rise, can_fall = self.alpha[part] < self._cost, self.alpha[part] > 0
        is_positive = self.labels[part] > 0
        in_up = np.where(is_positive, can_rise, can_fall)
        in_low = np.where(is_positive, can_fall, can_rise)
        self._both[0, part] = np.where(in_up, f, np.inf)
        self._both[1, part] = np.where(in_low, f, -np.inf)

    def f(self) -> np.ndarray:
        """Returns f of the active samples, float64 [active]."""
        return np.where(np.isfinite(self._up), self._up, self._low)

    def _set_active(self, active: int) -> None:
        self.active = active
        self._up, self._low = self._both[:, :active]
        self._change = self._scratch[:active]
