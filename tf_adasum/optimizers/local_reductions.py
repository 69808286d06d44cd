"""What combines all replicas at once, and so does not go with a reduction inside every host."""

from __future__ import annotations

from collections.abc import Iterable

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
