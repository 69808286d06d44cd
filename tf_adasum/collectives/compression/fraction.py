"""What the codecs that send a part of the values are told."""

from __future__ import annotations

import numbers
from typing import Any

from tf_adasum.collectives.refusals import refusal, shown


def check_fraction(fraction: Any, name: str = "fraction") -> None:
    """Raises ValueError for what is no share of the values."""
    is_number = isinstance(fraction, numbers.Real) and not isinstance(fraction, bool)
    if not is_number or not 0 < fraction <= 1:
        expected = f"{name} to be a number above 0 and at most 1"
        raise ValueError(refusal(expected, shown(fraction), "Pass 0.01, for example."))
