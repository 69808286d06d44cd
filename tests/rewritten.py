"""What AutoGraph rewrites while a `tf.function` is traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def rewritten() -> Iterator[set[str]]:
    """Yields a set that gets the names of the functions: "tf__" before those that they had."""
    names = set()

    def note(frame, event, argument):
        if frame.f_code.co_name.startswith("tf__"):
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)
