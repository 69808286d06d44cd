"""Runs a training script and, in place of its first `fit`, measures and predicts: adasum.advise.

adasumrun advise -np 2 train.py --its --arguments
python -m tf_adasum.advise train.py      # on one process, without a launcher
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
from typing import Any

import keras

from tf_adasum import keras_hooks
from tf_adasum.advise.advise import Hosts, advise
from tf_adasum.advise.refusal import NoAdviceError
from tf_adasum.collectives.communicator import rank
from tf_adasum.keras_hooks import first_fit

_PATIENCE_SECONDS = 2


def main(argv: list[str]) -> int:
    """Runs the script; its first `fit` ends it.

    Args:
        argv: the command line without the program's name.

    Returns:
        1: the script has ended without a `fit`, which a line on standard error says.
    """
    options = _parse(argv)
    keras_hooks.install()  # before the hook of fit, which so lies around theirs
    first_fit.answer(lambda model, given: _answer(model, given, options))
    if not os.path.isfile(options.script):
        _say(f"Expected a training script. Received: {options.script}, no file.")
        return 1
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))  # as python has it
    runpy.run_path(options.script, run_name="__main__")
    _say("Expected a script that calls fit of a Keras model. Received: one that ended without it.")
    return 1


def _answer(model: keras.Model, given: dict[str, Any], options: argparse.Namespace) -> None:
    names = ("y", "batch_size", "sample_weight", "class_weight", "shuffle")
    data = {name: given[name] for name in names if name in given}
    hosts = {"ranks": options.ranks_per_host, "gbits": options.gbits, "round_us": options.round_us}
    try:
        advice = advise(model, given.get("x"), hosts=hosts, **data)
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
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
