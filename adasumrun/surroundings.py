"""What adasumrun finds around it: a working directory, a home, a place for temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping

from adasumrun.mpirun import LaunchError

_HOME = "HOME"


def complete(environment: MutableMapping[str, str]) -> None:
    """Adds what mpirun does not start without.

    Args:
      environment: gets HOME, which services of systemd and `env -i` have not.

    Raises:
      LaunchError: there is no working directory any more.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise LaunchError(
            f"expected a working directory. Received: {error.strerror}, as it was removed, or made "
            "anew. Say: cd DIRECTORY"
        ) from error
    if _HOME not in environment:
        home = os.path.expanduser("~")
        environment[_HOME] = home if os.path.isabs(home) else "/"  # a user without an entry


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Makes a folder, which is a context and is removed at its end.

    Raises:
      LaunchError: it can't be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="adasumrun_", ignore_cleanup_errors=True)
    except OSError as error:
        raise LaunchError(
            f"expected a folder for temporary files. Received: {error}. Set TMPDIR to a folder "
            "that you may write to"
        ) from error
