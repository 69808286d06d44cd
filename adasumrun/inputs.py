"""What ranks find on stdin: nothing, or on rank 0 what is piped into adasumrun."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys

from adasumrun import mpirun

# python, python3.13, python3.13t (without a lock) and pypy, but not python_train.
PYTHON = re.compile(r"(python|pypy)[0-9.]*t?")


def check(options: argparse.Namespace) -> None:
    """Refuses what would read nothing from stdin, and wait or end for want of it.

    Raises:
        mpirun.LaunchError: `--stdin=0` and a terminal: mpirun, in a session of its own, does not
            read from it. Or a Python without a script, which would find an empty one, and end as if
            it had done its work.
    """
    if options.stdin != "none" and sys.stdin.isatty():
        raise mpirun.LaunchError(
            "expected a pipe or a file on stdin for --stdin=0. Received: a terminal. "
            "Say: cat | adasumrun --stdin=0 ..."
        )
    if options.stdin == "none" and _reads_its_script(options.program):
        raise mpirun.LaunchError(
            "expected a program that does not come on stdin, which ranks find empty. Received: "
            f"{' '.join(options.program)}. Write the script to a file, or pass it by python -c"
        )


def check_opened() -> None:
    """Refuses what rank 0 can't open by itself.

    Raises:
        mpirun.LaunchError: a socket, as Node.js gives one to what it starts.
    """
    if stat.S_ISSOCK(os.fstat(sys.stdin.fileno()).st_mode):
        raise mpirun.LaunchError(
            "expected a pipe or a file on stdin for --stdin=0. Received: a socket. "
            "Say: cat | adasumrun --stdin=0 ..."
        )


def _reads_its_script(program: list[str]) -> bool:
    """Whether it is a Python with no script behind its own options, or with `-` in its place."""
    name, *arguments = program
    if not PYTHON.fullmatch(os.path.basename(name)):
        return False
    rest = iter(arguments)
    for each in rest:
        if each in ("-X", "-W"):
            next(rest, None)  # its value
        elif not re.fullmatch(r"-[bBdEiIOPqsSuvx]+|-[XW].+", each):
            return each == "-"
    return True
