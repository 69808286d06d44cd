"""Checks the settings that our optimizers share with Adam."""

from __future__ import annotations

import math
import numbers
from typing import Any

from tf_adasum.collectives.refusals import refusal, shown


def checked_decay(what: str, value: Any) -> float:
    """Returns the decay of a moving average: a number from 0 to below 1.

    Args:
        what: the name of the argument.
        value: what the user passed.

    Raises:
        TypeError: it is no number, or a bool.
        ValueError: it is out of range, or NaN.
    """
    number = _checked_number(what, value, "a number from 0 to below 1")
    if not 0 <= number < 1:
        line = refusal(f"{what} from 0 to below 1", shown(value), "Leave it out for the default.")
        raise ValueError(line)
    return number


def checked_epsilon(value: Any) -> float:
    """Returns epsilon: a number above 0.

    Args:
        value: what the user passed.

    Raises:
        TypeError: it is no number, or a bool.
        ValueError: it is not above 0, or not finite.
    """
    number = _checked_number("epsilon", value, "a number above 0")
    if not 0 < number < math.inf:
        line = refusal("epsilon above 0", shown(value), "Leave it out for the default.")
        raise ValueError(line)
    return number


def _checked_number(what: str, value: Any, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        advice = "Leave it out for the default."
        raise TypeError(refusal(f"{what} to be {wanted}", shown(value), advice))
    return float(value)
