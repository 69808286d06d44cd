"""Every row of docs/keras.md, on as many replicas as there are ranks here."""

from __future__ import annotations

import os

# A rank that fails leaves the others waiting: seconds, not minutes, and no row waits for ever.
os.environ.setdefault("TF_ADASUM_MISMATCH_SECONDS", "20")
os.environ.setdefault("TF_ADASUM_TIMEOUT_SECONDS", "120")

import pytest

from tests.keras import rows
from tests.keras.cells import run_cell
from tests.keras.registry import COLUMNS, ROWS
from tf_adasum.collectives.communicator import world

LOCAL = [num_local for processes, num_local in COLUMNS if processes == world().size]
assert rows.SUBJECTS  # importing them registers the rows


def named(row):
    """The row's name in reports; `-k=quick` leaves out what only full runs do."""
    return f"{'' if row.full else 'quick '}{row.subject}: {row.name}"


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("name", ROWS, ids=map(named, ROWS.values()))
def test_row(name, num_local):
    run_cell(ROWS[name], num_local)
