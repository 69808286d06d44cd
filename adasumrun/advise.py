"""adasumrun advise: a script's first `fit` is measured, and predicted for more ranks.

    adasumrun advise -np 2 train.py --its --arguments

Every rank runs `python -m tf_adasum.advise` with the script (docs/advise.md).
"""

from __future__ import annotations

import argparse
import sys

from adasumrun import argument_types

COMMAND = "advise"
_PYTHONS = ("python", "python3")
_OPTIONS = ("plot", "ranks_per_host", "gbits", "round_us")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what only `adasumrun advise` takes."""
    parser.add_argument("--plot", metavar="FILE", help="draw the table, as a PNG")
    parser.add_argument(
        "--ranks-per-host",
        type=argument_types.positive,
        metavar="K",
        help="of the hosts to predict for (default: as many as run here)",
    )
    parser.add_argument(
        "--gbits",
        type=float,
        metavar="G",
        help="link of each host, Gbit/s (default: 25; measured where ranks run on several hosts)",
    )
    parser.add_argument(
        "--round-us",
        type=float,
        metavar="US",
        help="microseconds of a message there and back between hosts (default: 30, likewise)",
    )


def program(options: argparse.Namespace) -> list[str]:
    """Returns what every rank runs.

    Args:
      options: the parsed command line, `program` with the script and its arguments.
    """
    script = options.program[1:] if options.program[0] in _PYTHONS else options.program
    given = {name: getattr(options, name) for name in _OPTIONS}
    flags = [
        f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None
    ]
    return [sys.executable, "-m", "tf_adasum.advise", *flags, *script]
