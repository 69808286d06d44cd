"""Numbers that a user passed, as Python's own, or a refusal."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from tf_adasum.collectives.refusals import refusal, shown

# The limit of counts that have none of their own.
NO_LIMIT = 2**62
_ADVICE = "Pass such a number."


def checked_int(what: str, value: Any, least: int, most: int) -> int:
    """Returns an int of Python for any whole number, such as NumPy's.

    Args:
        what: the name of the argument.
        value: what the user passed.
        least: the smallest number that is allowed.
        most: the largest one.

    Raises:
        TypeError: it is no whole number, or a bool.
        ValueError: it is out of range.
    """

    def line() -> str:
        expected = f"{what} to be an int from {least} {f'to {most}' if most < NO_LIMIT else 'on'}"
        return refusal(expected, shown(value), _ADVICE)

    if isinstance(value, bool):
        raise TypeError(line())
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(line()) from None
    if not least <= number <= most:
        raise ValueError(line())
    return number


def checked_float(
    what: str,
    value: Any,
    least: float,
    most: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
) -> float:
    """Returns a float of Python for any real number, such as NumPy's.

    Args:
        what: the name of the argument.
        value: what the user passed.
        least: the smallest number that is allowed.
        most: the largest one; infinity itself is never allowed.
        above: whether `least` itself is not allowed.
        below: whether `most` itself is not allowed.

    Raises:
        TypeError: it is no number, or a bool.
        ValueError: it is out of range, or NaN.

    Example:
        >>> from tf_adasum.collectives.checked_numbers import checked_float
        >>> checked_float("momentum", 0, 0, 1, below=True)
        0.0
    """
    expected = f"{what} to be a number {_in_words(least, most, above, below)}"
    line = refusal(expected, shown(value), _ADVICE)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(line)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(line) from None
    is_least = least < number if above else least <= number
    is_most = number < most if below or most == math.inf else number <= most
    if not (is_least and is_most):
        raise ValueError(line)
    return number


def _in_words(least: float, most: float, above: bool, below: bool) -> str:
    start = f"above {least:g}" if above else f"from {least:g}"
    if most == math.inf:
        return f"{start}, and finite"
    if above:
        return f"{start} and {'below' if below else 'at most'} {most:g}"
    return f"{start} to {'below ' if below else ''}{most:g}"
