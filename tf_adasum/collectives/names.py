"""What a strategy's exchanges are called: alike on all ranks, and readable where ranks disagree.

Keras numbers what it names by itself, per process: a model that one rank alone builds, to plot or
to compare, turns `sequential` into `sequential_1` there. So names leave these counters out, and
variables are told apart by the order in which their initial values were agreed on.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence

import tensorflow as tf

_COUNTER = re.compile(r"_\d+(?=$|[/_:.])|:\d+$")


def without_counters(name: str) -> str:
    """Returns a variable's name without the numbers that Keras or TensorFlow appended.

    Example:
        >>> without_counters("sequential_4/dense_12/kernel:0")
        'sequential/dense/kernel'
    """
    return _COUNTER.sub("", name)


class VariableNumbers:
    """Numbers variables in the order of their creation, which all ranks share.

    A variable counts if its initial value was exchanged: no rank made such a one alone.
    """

    def __init__(self):
        self._next = itertools.count()
        self._drawn: int | None = None

    def draw(self) -> None:
        """Draws the next number, after an exchange of initial values."""
        self._drawn = next(self._next)

    def attach(self, variable: tf.Variable) -> None:
        """Gives the number that was drawn last, if any, to the variable that was made of it."""
        if self._drawn is not None:
            variable._adasum_number = self._drawn
        self._drawn = None


def number_of(variable: tf.Variable) -> int | None:
    """Returns a variable's place among those whose initial values were exchanged, or None."""
    return getattr(variable, "_adasum_number", None)


def _identity(variable: tf.Variable) -> str:
    number = number_of(variable)
    return without_counters(variable.name) if number is None else str(number)


def of_initial_value(name: str | None) -> str:
    """Name of the broadcast of a new variable's initial value."""
    return f"initial value of {without_counters(name or 'a variable')}"


def of_bucket(reduction: str, paths: Sequence[str], variables: Sequence[tf.Variable]) -> str:
    """Name of the exchange of a bucket of variables; their order belongs to it."""
    identity = "\n".join(map(_identity, variables))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    more = f" and {len(paths) - 1} more variables" if len(paths) > 1 else ""
    return f"the {reduction} of {without_counters(paths[0])}{more} ({digest})"


def of_metric(reduction: str, variable: tf.Variable) -> str:
    """Name of the reduction that reading a metric's variable asks for."""
    return f"the {reduction} of the metric {without_counters(variable.name)}"


def of_rows(reduction: str, variable: tf.Variable) -> str:
    """Name of the reduction of rows that replicas scatter to a variable."""
    return f"the {reduction} of rows of {without_counters(variable.name)}"


def of_assignment(reduction: str, variable: tf.Variable) -> str:
    """Name of the exchange of what replicas assign to a variable that aggregates it."""
    return f"the {reduction} assigned to {without_counters(variable.name)} ({_identity(variable)})"
