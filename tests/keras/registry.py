"""The rows of docs/keras.md: a feature of Keras each, with the script that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.keras.run import Run

# (processes, local replicas): the columns of the table.
COLUMNS = ((1, 2), (2, 1), (2, 2), (3, 1))
EQUAL, ALIKE, HOLDS, REFUSED = "equal", "alike", "holds", "refused"


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        subject: the part of the table that it stands in.
        name: the feature.
        script: trains or computes; returns what is to be equal by name (`Run.result`).
        cell: what is expected of it: one of EQUAL, ALIKE, HOLDS and REFUSED.
        note: what the table says about it; of a refusal, what its message says.
        tolerance: absolute and relative.
        full: whether only `make test-full` and `make keras-table` run it.
    """

    subject: str
    name: str
    script: Callable[[Run], dict[str, Any]]
    cell: str = EQUAL
    note: str = ""
    tolerance: float = 1e-5
    full: bool = False


ROWS: dict[str, Row] = {}


def row(subject: str, name: str, **settings) -> Callable:
    """Adds the decorated script to the table; `settings` are those of `Row`."""

    def add(script):
        if name in ROWS:
            raise ValueError(
                f"A row of the table needs a name of its own. Received: {name!r} again."
            )
        ROWS[name] = Row(subject, name, script, **settings)
        return script

    return add
