"""What the parts of configure.py share: running a program, and the error that ends in one line."""

from __future__ import annotations

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
