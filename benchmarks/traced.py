"""What this rank does in an operation, from the library's own timeline."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import tf_adasum as adasum
from adasumrun import timeline


def trace(operation: Callable[[adasum.Communicator], object]) -> list[dict]:
    """Runs `operation` on a communicator that keeps a timeline; all ranks call this.

    Returns:
        The events of this rank, as in a Chrome trace.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = {"timeline": str(Path(folder, "trace"))}
        communicator = adasum.world().split(color=0, options=options)
        operation(communicator)
        communicator.close()
        del communicator  # which writes the timeline
        gc.collect()
        (written,) = Path(folder).iterdir()
        return json.loads(written.read_text())["traceEvents"]


def count_sent_bytes(operation: Callable[[adasum.Communicator], object]) -> int:
    """Returns the bytes that this rank sends in `operation`, but for those by which ranks agree."""
    return sum(num_bytes for _, num_bytes in timeline.sent_bytes(trace(operation)))
