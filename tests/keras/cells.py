"""A cell of the table: a row on a number of replicas, run and recorded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

import tf_adasum
from tests.keras.checks import check_equal, check_equal_on_replicas, check_training
from tests.keras.registry import ALIKE, REFUSED, Row
from tests.keras.run import ADASUM, MEAN, PLAIN, Run
from tests.training.replicas import everywhere
from tf_adasum.collectives.communicator import world

# Where cells go; Bazel sets it for its tests, tests/keras/table.py for those that it starts.
_FOLDER = "TEST_UNDECLARED_OUTPUTS_DIR"
_plain_results: dict[tuple, dict[str, Any]] = {}


def run_cell(row: Row, num_local: int) -> None:
    """Runs the row as its cell expects it, and records the cell on rank 0.

    Raises:
        AssertionError: the row did not do what its cell says, on this rank or on another.
    """
    begin, failure = time.monotonic(), None
    try:
        if row.cell == REFUSED:
            _check_refused(row, num_local)
        else:
            _check_numbers(row, num_local)
    except Exception as error:
        failure = error
    _meet(row)
    failed = everywhere(failure is not None).any()
    _record(row, num_local, bool(failed), time.monotonic() - begin)
    if failure is not None:
        raise failure
    assert not failed, f"{row.name} failed on another rank"


def _check_numbers(row: Row, num_local: int) -> None:
    number, alike = world().size * num_local, row.cell == ALIKE
    key = row.name, number
    if key not in _plain_results:
        _plain_results[key] = row.script(Run(PLAIN, number, num_local, alike))
    for kind in (MEAN, ADASUM):
        run = Run(kind, number, num_local, alike)
        result = row.script(run)
        if kind == MEAN or alike:
            check_equal(result, _plain_results[key], row.tolerance)
        else:
            check_training(result)
        check_equal_on_replicas(run, result)


def _check_refused(row: Row, num_local: int) -> None:
    run = Run(ADASUM, world().size * num_local, num_local)
    try:
        row.script(run)
    except Exception as error:
        message = str(error)
        assert row.note in message, f"refused by another sentence: {message}"
    else:
        raise AssertionError("expected to be refused, with a sentence; it ran")


def _meet(row: Row) -> None:
    """Returns when all ranks have come here, also where one has failed in the midst of the row.

    What it left undone meets this, both fail after the mismatch limit, and the others come.
    """
    for attempt in range(10):
        try:
            tf_adasum.allreduce(tf.zeros([1]), "sum", name=f"end of row {row.name}")
            return
        except tf.errors.OpError:
            time.sleep(0.1 * attempt)
    raise RuntimeError(f"ranks did not meet after the row {row.name!r}")


def _record(row: Row, num_local: int, failed: bool, seconds: float) -> None:
    if world().rank == 0 and _FOLDER in os.environ:
        column = f"{world().size},{num_local}"
        cell = {"row": row.name, "column": column, "cell": "failed" if failed else row.cell}
        path = Path(os.environ[_FOLDER]) / f"cells_{world().size}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps({**cell, "seconds": round(seconds, 2)}) + "\n")
