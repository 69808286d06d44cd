"""Joins the timelines that the ranks wrote into one Chrome trace."""

import json
import os
import re
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
        How many ranks' files were joined; and what was encoded on all ranks, in bytes before and
        after. The files are removed once the whole is written, also those without a beginning, as
        a full disk leaves them.

    Raises:
        OSError: if `path` can't be written; the ranks' files are kept.

    Example:
        >>> merge("/tmp/no-rank-wrote-here.json")
        Merged(num_files=0, num_bytes=0, encoded_bytes=0)
    """
    path = Path(path)
    parts = _parts(path)
    events, num_files = [], 0
    for part in parts:
        try:
            events += read(part)
        except ValueError:
            continue
        num_files += 1
    if num_files:
        _write(path, json.dumps({"traceEvents": events}))
    for part in parts:
        part.unlink()
    encoded = [event["args"] for event in events if event["name"] == "encode"]
    sums = [sum(args[key] for args in encoded) for key in ("bytes", "encoded_bytes")]
    return Merged(num_files, *sums)


def discard(path: str | os.PathLike) -> None:
    """Removes what ranks of earlier starts and jobs left at `<path>.rank*`.

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
    # Where the disk was full, it may end inside of a letter.
    text = Path(part).read_text(encoding="utf-8", errors="replace")
    try:
        trace = json.loads(text)
    except json.JSONDecodeError:
        whole_lines = text[: text.rfind("\n") + 1]
        trace = json.loads(whole_lines + "]}")
    if not isinstance(trace, dict) or "traceEvents" not in trace:
        raise ValueError(f"expected the trace of a rank. Received: {part}, another JSON file")
    return trace["traceEvents"]


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
    """What ranks wrote, and no other file whose name begins so."""
    name = re.compile(rf"{re.escape(path.name)}\.rank\d+\.\d+")
    found = path.parent.iterdir() if path.parent.is_dir() else []
    return sorted(each for each in found if name.fullmatch(each.name))


def _write(path: Path, text: str) -> None:
    """Writes all of it, or leaves what was there."""
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
