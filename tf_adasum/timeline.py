"""Joins the timelines that the ranks wrote into one Chrome trace."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

# Where each process writes: `<path>.rank<world rank>.<communicator>` (cc/communicator/group.cc).
VARIABLE = "TF_ADASUM_TIMELINE"
# Begins the name of the interval in which an operation waited for its turn.
_QUEUE = "queue: "


def merge(path: str | os.PathLike) -> int:
    """Joins `<path>.rank*` into `path`, a file that https://ui.perfetto.dev opens.

    Args:
        path: what `TF_ADASUM_TIMELINE` (adasumrun --timeline) was set to.

    Returns:
        The number of ranks' files joined. They are removed once the whole is written.

    Raises:
        OSError: if `path` can't be written; the ranks' files are kept.

    Example:
        >>> merge("/tmp/no-rank-wrote-here.json")
        0
    """
    path = Path(path)
    found = path.parent.glob(f"{path.name}.rank*")
    parts = sorted(part for part in found if part.suffix != ".part")
    events = []
    for part in parts:
        events += json.loads(part.read_text())["traceEvents"]
    if parts:
        unfinished = path.with_name(path.name + ".part")
        unfinished.write_text(json.dumps({"traceEvents": events}))
        unfinished.replace(path)
    for part in parts:
        part.unlink()
    return len(parts)


def sent_bytes(events: Iterable[dict]) -> list[tuple[str, int]]:
    """Returns the name of each operation and how many bytes this rank sent for it.

    Counts what the operation's messages held; in shared memory, what peers read of this rank's
    memory. The agreement before an operation is left out.

    Args:
        events: "traceEvents" of one rank's timeline of one communicator, in its order.

    Returns:
        One pair for each operation, in the order in which they ran.

    Example:
        >>> names = ["message", "agree", "queue: step", "exchange", "exchange", "step"]
        >>> sent_bytes([{"name": name, "args": {"bytes": 8}} for name in names])
        [('step', 16)]
    """
    operations = []
    running, num_bytes = None, 0
    for event in events:  # an interval stands where it ended, after those inside it
        name = event["name"]
        if name.startswith(_QUEUE):
            running, num_bytes = name[len(_QUEUE) :], 0
        elif name in ("message", "exchange"):
            num_bytes += event["args"]["bytes"]
        elif name == running:
            operations.append((name, num_bytes))
            running = None
    return operations
