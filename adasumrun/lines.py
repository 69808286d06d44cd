"""What adasumrun says: a line each, on standard error."""

from __future__ import annotations

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
        pass
