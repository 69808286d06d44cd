"""docs/keras.md lists the rows that there are, with what their cells say."""

from __future__ import annotations

import json

import keras

from tests.keras.registry import COLUMNS, ROWS
from tests.keras.rendering import NOT_RUN, render
from tests.keras.rows.optimizers import OTHERS
from tests.keras.table import DOCUMENT, merged, problems

# Base classes, what is in every row (History), and what needs a server or orbax.
NO_ROWS = {
    "Callback",
    "CallbackList",
    "History",
    "OrbaxCheckpoint",
    "ProgbarLogger",
    "RemoteMonitor",
}


def expected():
    columns = [f"{processes},{local}" for processes, local in COLUMNS]
    return {(row.name, column): row.cell for row in ROWS.values() for column in columns}


def stated():
    """What the cells of the document say, but for those that nobody has run."""
    lines = [line.split(" | ") for line in DOCUMENT.read_text().splitlines() if line[:2] == "| "]
    columns = [f"{processes},{local}" for processes, local in COLUMNS]
    cells = {
        (line[0].removeprefix("| "), column): cell
        for line in lines
        for column, cell in zip(columns, line[1:])
    }
    return {key: cell for key, cell in cells.items() if key[0] in ROWS and cell != NOT_RUN}


def test_document_is_up_to_date():
    cells = stated()
    assert DOCUMENT.read_text() == render(ROWS.values(), cells), "run `make keras-table`"
    unexpected = {key: cell for key, cell in cells.items() if cell != expected()[key]}
    assert not unexpected, "run `make keras-table`"


def test_every_optimizer_and_callback_of_keras_has_a_row():
    listed = [name for name in dir(keras.optimizers) if name[0].isupper()]
    without = [name for name in listed if name not in ROWS and name not in OTHERS]
    assert not without
    of_callbacks = " ".join(row.name for row in ROWS.values() if row.subject == "Callbacks")
    listed = [name for name in dir(keras.callbacks) if name[0].isupper()]
    assert not [name for name in listed if name not in of_callbacks and name not in NO_ROWS]


def test_cells_that_are_missing_or_failed_are_named(tmp_path):
    first, second = list(ROWS)[:2]
    wanted = expected()
    del wanted[first, "2,1"]
    cells = [{"row": row, "column": column, "cell": cell} for (row, column), cell in wanted.items()]
    cells.append({"row": second, "column": "3,1", "cell": "failed"})
    paths = [tmp_path / "cells_1.jsonl", tmp_path / "cells_2.jsonl"]
    for path, half in zip(paths, (cells[:3], cells[3:])):
        path.write_text("".join(json.dumps(cell) + "\n" for cell in half))
    found = problems(merged(paths))
    assert len(found) == 2
    assert f"{first} at (2,1): not run" in found[0]
    assert f"{second} at (3,1): failed" in found[1]
