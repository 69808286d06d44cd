"""Runs a training script and, in place of its first `fit`, measures and predicts: adasum.advise.

adasumrun advise -np 2 train.py --its --arguments
python -m tf_adasum.advise train.py         # on one process, without a launcher
python -m tf_adasum.advise -m models.train  # a module, as python -m runs it
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
import time
from typing import Any

import keras

from adasumrun import argument_types, job
from tf_adasum import keras_hooks
from tf_adasum.advise.advise import advise
from tf_adasum.advise.hosts import Hosts, checked_hosts
from tf_adasum.advise.plot import check_matplotlib
from tf_adasum.advise.refusal import NoAdviceError
from tf_adasum.collectives.communicator import rank
from tf_adasum.keras_hooks.fit import first_fit

_PATIENCE_SECONDS = 2


def main(argv: list[str]) -> int:
    """Runs the script or module; its first `fit` ends it.

    Args:
        argv: the command line without the program's name.

    Returns:
        1: it can't be run, or has ended without a `fit`, which a line on standard error says.
    """
    options = _parse(argv)
    try:
        checked_hosts(_hosts(options))
        if options.plot and job.speaks():
            argument_types.file_to_write(options.plot)
            check_matplotlib()
    except (ValueError, argparse.ArgumentTypeError, ImportError) as error:
        _say(str(error))
        return 1
    keras_hooks.install()  # before the hook of fit, which so lies around theirs
    first_fit.answer(lambda model, given: _answer(model, given, options))
    sys.argv = [options.script, *options.arguments]
    if options.m:
        if not _is_module(options.script):
            _say(f"Expected a training module. Received: {options.script}, no module.")
            return 1
        # As python -m has it: sys.path begins with this folder, sys.argv with the module's file.
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        if not os.path.isfile(options.script):
            _say(f"Expected a training script. Received: {options.script}, no file.")
            return 1
        sys.path[0] = os.path.dirname(os.path.abspath(options.script))  # as python has it
        runpy.run_path(options.script, run_name="__main__")
    _say("Expected a script that calls fit of a Keras model. Received: one that ended without it.")
    return 1


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            return False
        raise  # of what a package imports that the module is in


def _hosts(options: argparse.Namespace) -> dict[str, Any]:
    return {"ranks": options.ranks_per_host, "gbits": options.gbits, "round_us": options.round_us}


def _answer(model: keras.Model, given: dict[str, Any], options: argparse.Namespace) -> None:
    names = ("y", "batch_size", "sample_weight", "class_weight", "shuffle")
    data = {name: given[name] for name in names if name in given}
    try:
        advice = advise(model, given.get("x"), hosts=_hosts(options), **data)
        if rank() == 0:
            print(advice, flush=True)
            if options.plot:
                advice.plot(options.plot)
    except (NoAdviceError, ImportError, OSError) as error:
        _say(str(error))
        sys.exit(1)
    sys.exit(0)


def _say(sentence: str) -> None:
    """Says it once: where rank 0 fails too, the launcher ends the others while they wait."""
    if rank() > 0:
        time.sleep(_PATIENCE_SECONDS)
    print(f"adasumrun advise: {sentence}", file=sys.stderr, flush=True)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tf_adasum.advise")
    parser.add_argument("--plot", metavar="FILE")
    parser.add_argument("--ranks-per-host", type=int, metavar="K")
    parser.add_argument("--gbits", type=float, default=Hosts.gbits)
    parser.add_argument("--round-us", type=float, default=Hosts.round_us)
    parser.add_argument("-m", action="store_true", help="the script is a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
