"""docs/keras.md lists the rows that there are, with what their cells say."""

from __future__ import annotations

import json

from tests.keras.registry import COLUMNS, ROWS
from tests.keras.rendering import render
from tests.keras.table import DOCUMENT, merged, problems


def expected():
    columns = [f"{processes},{local}" for processes, local in COLUMNS]
    return {(row.name, column): row.cell for row in ROWS.values() for column in columns}


def test_document_is_up_to_date():
    made = render(ROWS.values(), expected())
    assert DOCUMENT.read_text() == made, "run `make keras-table`"


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
