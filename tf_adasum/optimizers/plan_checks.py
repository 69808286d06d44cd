"""What of a plan an exchange of its own kind can't do, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.policy import PlanRow


def check_flat(setting: str, rows: Iterable[PlanRow], local_reduction: str) -> None:
    """Raises ValueError where Adasum of a variable is to come behind a local reduction.

    Args:
        setting: what combines all replicas at once.
        rows: the variables that it combines.
        local_reduction: of the strategy.
    """
    paths = [row.path for row in rows if row.reduction == "adasum"]
    if local_reduction != "adasum" and paths:
        expected = f"no local_reduction with {setting}, which combines all replicas in one tree"
        received = (
            f"AdasumStrategy(local_reduction={local_reduction!r}), and adasum for {paths[0]!r}"
        )
        raise ValueError(refusal(expected, received, "Leave one of the two out."))


def check_reductions(
    setting: str, rows: Iterable[PlanRow], reductions: Sequence[str], why: str
) -> None:
    """Raises ValueError for a variable whose reduction the setting can't do.

    Args:
        setting: what combines the variables.
        rows: they.
        reductions: names of those that it can do.
        why: what holds for these alone, as a clause.
    """
    for row in rows:
        if str(row.reduction) not in reductions:
            expected = f"{setting} to combine by {' or '.join(reductions)}, {why}"
            received = f"the reduction {str(row.reduction)!r} for {row.path!r}"
            advice = "Change the strategy's rule for it, or leave sync out."
            raise ValueError(refusal(expected, received, advice))
