"""What adasumrun says: a line each, on standard error; and words for it."""

from __future__ import annotations

import io
import sys


def say(text: str) -> None:
    """Says a line, or nothing where it can't be written: no job ends for want of a reader.

    In `adasumrun ... 2>&1 | tee log` a signal to all processes ends the reader first; a terminal
    may be closed, and a disk full.

    Args:
      text: the line, without its end.
    """
    try:
        print(f"adasumrun: {text}", file=sys.stderr, flush=True)
    except OSError:
        # What could not be written stays in a buffer, and Python, which tries again at its end,
        # would end with exit code 120. From here on there is none.
        raw = io.FileIO(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)


def counted(number: int, what: str) -> str:
    """Returns "1 rank", "2 ranks"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
