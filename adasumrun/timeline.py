"""Joins the timelines that the ranks wrote into one Chrome trace."""

import glob
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# Where each process writes: `<path>.rank<world rank>.<communicator>` (cc/bootstrap/group.cc).
VARIABLE = "TF_ADASUM_TIMELINE"
# Begins the name of the interval in which an operation waited for its turn.
_QUEUE = "queue: "


class Merged(NamedTuple):
    """What was joined: of so many files, and the bytes of what travelled encoded, of all ranks."""

    num_files: int
    num_bytes: int
    encoded_bytes: int


def merge(path: str | os.PathLike) -> Merged:
    """Joins `<path>.rank*` into `path`, a file that https://ui.perfetto.dev opens.

    Args:
        path: what `TF_ADASUM_TIMELINE` (adasumrun --timeline) was set to.

    Returns:
        How many ranks' files were joined, which are removed once the whole is written; and what
        was encoded on all ranks, in bytes before and after.

    Raises:
        OSError: if `path` can't be written; the ranks' files are kept.

    Example:
        >>> merge("/tmp/no-rank-wrote-here.json")
        Merged(num_files=0, num_bytes=0, encoded_bytes=0)
    """
    path = Path(path)
    parts = _parts(path)
    events = []
    for part in parts:
        events += read(part)
    if parts:
        unfinished = path.with_name(path.name + ".part")
        unfinished.write_text(json.dumps({"traceEvents": events}))
        unfinished.replace(path)
    for part in parts:
        part.unlink()
    encoded = [event["args"] for event in events if event["name"] == "encode"]
    sums = [sum(args[key] for args in encoded) for key in ("bytes", "encoded_bytes")]
    return Merged(len(parts), *sums)


def discard(path: str | os.PathLike) -> None:
    """Removes what ranks of an earlier start left at `<path>.rank*`.

    Args:
        path: as for `merge`.

    Raises:
        OSError: if a file can't be removed.

    Example:
        >>> discard("/tmp/no-rank-wrote-here.json")
    """
    for part in _parts(Path(path)):
        part.unlink()


def read(part: str | os.PathLike) -> list[dict]:
    r"""Returns the "traceEvents" that one rank wrote, also if it was killed meanwhile.

    Args:
        part: a file `<path>.rank<world rank>.<communicator>`.

    Returns:
        The events, in the order in which they ended.

    Raises:
        OSError: if the file can't be read.
        ValueError: if no rank wrote it.

    Example:
        >>> import tempfile
        >>> part = Path(tempfile.mkdtemp(), "trace.json.rank0.0")
        >>> size = part.write_text('{"traceEvents":[\n{"ph": "M"}\n,{"ph": "X"}\n,{"p')
        >>> read(part)
        [{'ph': 'M'}, {'ph': 'X'}]
    """
    text = Path(part).read_text()
    try:
        return json.loads(text)["traceEvents"]
    except json.JSONDecodeError:
        whole_lines = text[: text.rfind("\n") + 1]
        return json.loads(whole_lines + "]}")["traceEvents"]


def sent_bytes(events: Iterable[dict]) -> list[tuple[str, int]]:
    """Returns the name of each operation and how many bytes this rank sent for it.

    Counts what the operation's messages held; in shared memory, what peers read of this rank's
    memory, and what this rank copied from and to theirs. The agreement before an operation is left
    out, but for what is enclosed with it.

    Args:
        events: "traceEvents" of one rank's timeline of one communicator, in its order.

    Returns:
        One pair for each operation, in the order in which they ran.

    Example:
        >>> names = ["message", "negotiate", "queue: step", "exchange", "exchange", "step"]
        >>> sent_bytes([{"name": name, "args": {"bytes": 8}} for name in names])
        [('step', 16)]
    """
    operations = []
    running, num_bytes = None, 0
    for event in events:  # an interval stands where it ended, after those inside it
        name = event["name"]
        if name.startswith(_QUEUE):
            running, num_bytes = name[len(_QUEUE) :], 0
        elif name in ("message", "exchange", "enclosed", "fetch", "store"):
            num_bytes += event["args"]["bytes"]
        elif name == running:
            operations.append((name, num_bytes))
            running = None
    return operations


def _parts(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{glob.escape(path.name)}.rank*"))
