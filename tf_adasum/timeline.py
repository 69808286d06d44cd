"""Joins the timelines that the ranks wrote into one Chrome trace."""

import json
import os
from pathlib import Path

# Where each process writes: `<path>.rank<world rank>.<communicator>` (cc/communicator/world.cc).
VARIABLE = "TF_ADASUM_TIMELINE"


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
