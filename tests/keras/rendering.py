"""Writes the table of Keras features as a page of docs/."""

from __future__ import annotations

from collections.abc import Iterable

from tests.keras.registry import COLUMNS, Row

NOT_RUN = "not run"

_HEAD = """\
# Keras features on several replicas

Written by `make keras-table`, which runs every cell. Don't edit it by hand:
`//tests/keras:table_test` compares it with the rows.

A column is (processes, local replicas). A row is an everyday script (`tests/keras/rows`), run three
times in each cell with the same seeds and data:

1. plain Keras on one device, with the global batch;
2. under `AdasumStrategy(reductions=[(".*", "mean")])` with `wrap(optimizer, mode="gradient")`,
   which must give the numbers of one device: weights, history, metrics, predictions;
3. under `AdasumStrategy()` with `wrap(optimizer)`: Adasum of the changes. All numbers are finite,
   and the loss falls.

After 2 and 3 all replicas hold the same bits, and all ranks return the same numbers, bit by bit.

* **equal**: the numbers of one device, absolute and relative to what "within" says.
* **alike**: the same, with Adasum too, where all replicas get the same rows. With unlike rows it
  can't be that of one device, for the reason given: each replica looks at its own rows.
* **holds**: the row says what holds in place of equal numbers.
* **refused**: with the sentence given, on every rank, at once.
* **not run**: nobody has looked yet.

With one column of two processes each, `make test` runs an eighth of the rows, and the gate a
quarter; `make test-full` runs all.
"""


def render(rows: Iterable[Row], cells: dict[tuple[str, str], str]) -> str:
    """Returns the page.

    Args:
        rows: in the order of the table.
        cells: what those that have run say, by the row's name and "processes,local replicas".
    """
    lines, subject = [_HEAD], None
    for row in rows:
        if row.subject != subject:
            subject = row.subject
            lines += [*([""] if lines[1:] else []), *_header(subject)]
        lines.append(_line(row, cells))
    return "\n".join(lines) + "\n"


def _header(subject: str) -> list[str]:
    columns = " | ".join(f"({processes},{local})" for processes, local in COLUMNS)
    return [f"## {subject}", "", f"| | {columns} | within | |", "|---" * (len(COLUMNS) + 3) + "|"]


def _line(row: Row, cells: dict[tuple[str, str], str]) -> str:
    columns = [f"{processes},{local}" for processes, local in COLUMNS]
    of_columns = [cells.get((row.name, column), NOT_RUN) for column in columns]
    parts = [row.name, *of_columns, f"{row.tolerance:g}", row.note]
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"
