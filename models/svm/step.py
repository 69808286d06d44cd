"""The step of a pair: how far, and where it leaves both."""

from __future__ import annotations

from models.svm.working_set import Candidate

# Of two samples that are equal, or nearly so: the step then ends at a bound.
_LEAST_CURVATURE = 1e-12


def best_step(up: Candidate, low: Candidate, curvature: float, cost: float) -> float:
    """The step of a pair that minimises the dual problem within the bounds.

        step = min((f_low - f_up) / (K_up,up + K_low,low - 2 K_up,low), room of up, room of low)

    Args:
        up: the worst of I_up.
        low: the worst of I_low.
        curvature: the denominator.
        cost: C.

    Returns:
        By how much a y of `up` grows and that of `low` shrinks; positive.

    Source: J. Platt, "Fast training of support vector machines using sequential minimal
    optimization", 1998; S. Keerthi et al., Neural Computation 13, 2001.
    """
    step = (low.f - up.f) / max(curvature, _LEAST_CURVATURE)
    return min(step, _room(up, cost, 1), _room(low, cost, -1))


def moved(candidate: Candidate, step: float, cost: float, sign: int) -> float:
    """The a of a pair's sample after a step, exactly at its bound where the bound ended the step.

    Args:
        candidate: the sample.
        step: of `best_step`.
        cost: C.
        sign: 1 if a y grows, for the worst of I_up; -1 for that of I_low.
    """
    grows = candidate.label * sign > 0
    if step >= _room(candidate, cost, sign):
        return cost if grows else 0.0
    return candidate.alpha + step if grows else candidate.alpha - step


def _room(candidate: Candidate, cost: float, sign: int) -> float:
    return cost - candidate.alpha if candidate.label * sign > 0 else candidate.alpha
