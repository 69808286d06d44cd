"""Counts the bytes that this rank sends in an operation, from the library's own timeline."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import tf_adasum as adasum
from tf_adasum import timeline


def count_sent_bytes(operation: Callable[[adasum.Communicator], object]) -> int:
    """Runs `operation` once on a communicator that keeps a timeline; all ranks call this.

    Returns:
        Bytes that this rank sent, without those by which the ranks agree on what to do.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ[timeline.VARIABLE] = str(Path(folder, "trace"))
        communicator = adasum.world().split(color=0)
        del os.environ[timeline.VARIABLE]
        operation(communicator)
        communicator.close()
        del communicator  # which writes the timeline
        gc.collect()
        (written,) = Path(folder).iterdir()
        events = json.loads(written.read_text())["traceEvents"]
    return sum(num_bytes for _, num_bytes in timeline.sent_bytes(events))
