"""What the parts of configure.py share: running a program, and the error that ends in one line."""

from __future__ import annotations

import os
import shutil
import subprocess

TIME_LIMIT_SECONDS = 60


class ConfigureError(Exception):
    """One line that says what was expected, what was found and what to do."""


def run(command: list[str]) -> str:
    """Returns the standard output of a command that ends by itself."""
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS
    )
    return done.stdout


def find_program(wanted: str) -> str:
    """Returns where a program is, by an absolute path: Bazel runs in folders of its own.

    Args:
      wanted: a path, perhaps relative or with a ~, or a name to look for on PATH; returned as it
        is if there is no such program, so that running it says why.
    """
    found = shutil.which(os.path.expanduser(wanted))
    return os.path.abspath(found) if found else wanted
