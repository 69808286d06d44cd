"""adasumrun advise: a script's first `fit` is measured, and predicted for more ranks.

    adasumrun advise -np 2 train.py --its --arguments
    adasumrun advise -np 2 python -m models.digits.train --its --arguments

Every rank runs `python -m tf_adasum.advise` with the script or module (docs/advise.md).
"""

from __future__ import annotations

import argparse
import os
import sys

from adasumrun import argument_types, inputs

COMMAND = "advise"
_OWN_PYTHON = ("python", "python3")  # of adasumrun, as for other programs
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
        type=argument_types.between(1e-6, 1e9),
        metavar="G",
        help="link of each host, Gbit/s (default: 25); not looked at where ranks run on several"
        " hosts, which are measured",
    )
    parser.add_argument(
        "--round-us",
        type=argument_types.between(0, 1e9),
        metavar="US",
        help="microseconds of a message there and back between hosts (default: 30); likewise",
    )


def program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """Returns what every rank runs.

    Args:
      parser: what says that there is no script or module, and ends this process.
      options: the parsed command line, `program` with the script and its arguments.
    """
    first, *rest = options.program
    is_python = inputs.PYTHON.fullmatch(os.path.basename(first)) is not None
    python = first if is_python and first not in _OWN_PYTHON else sys.executable
    script = _script(rest) if is_python else options.program
    if not script:
        received = " ".join(rest[:1]) or "nothing"
        parser.error(f"expected SCRIPT or -m MODULE behind {first}. Received: {received}")
    given = {name: getattr(options, name) for name in _OPTIONS}
    flags = [
        f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None
    ]
    return [python, "-m", "tf_adasum.advise", *flags, *script]


def _script(words: list[str]) -> list[str]:
    """What python runs by these words: a script, or -m and a module; empty for anything else."""
    option, rest = "".join(words[:1]), words[1:]
    if option.startswith("-m"):
        module = [*filter(None, [option[2:]]), *rest]
        return ["-m", *module] if module else []
    return [] if option.startswith("-") else words
