"""Trains the digits network as one worker and as many, once per reduction, and draws demo.png.

Nothing changes but the number of workers and the reduction: network, images per worker, optimizer
and learning rate are those that are good for one worker. adasumrun starts the ranks. Each holds
several replicas (AdasumStrategy on logical CPU devices), and every replica is a worker: it takes
its own step from its own batch, with a momentum of its own, and the steps are reduced. One worker
is rank 0 alone. The target is 1.5 points less than its best test accuracy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from models.digits import settings

TIME_LIMIT_SECONDS = 1800
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(arguments: list[str]) -> int:
    """Starts the ranks; returns their exit code.

    Args:
        arguments: --ranks and flags of `models.digits.train`, which win over the demo's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m models.digits.demo",
        usage="%(prog)s [--ranks RANKS] [flags of models.digits.train]",
        description=__doc__,
        epilog=f"The flags of models.digits.train follow; here {' '.join(_flags())}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--ranks", type=int, default=settings.DEMO_RANKS, help="number of ranks")
    parser.add_argument("-h", "--help", action="store_true", help="show this help")
    options, flags = parser.parse_known_args(arguments)
    train = [sys.executable, "-m", "models.digits.train"]
    if options.help:
        parser.print_help()
        sys.stdout.flush()
        _call([*train, "--help"])
        return 0
    print(__doc__, flush=True)
    start = time.monotonic()
    launcher = [sys.executable, "-m", "adasumrun", "-np", str(options.ranks)]
    # The others wait while rank 0 is the one worker, on a slow machine for a while.
    launcher += ["--timeout", str(TIME_LIMIT_SECONDS), "--stall-warning", "60"]
    code = _call([*launcher, *train, *_flags(), *flags])
    if code == 0:
        print(f"{time.monotonic() - start:.0f} seconds")
    return code


def _flags() -> list[str]:
    """The flags of `models.digits.train` that make it the demo."""
    return [
        "--reduction=none,sum,mean,adasum",
        f"--workers={settings.DEMO_WORKERS}",
        f"--epochs={settings.DEMO_EPOCHS}",
        f"--test_shift={settings.TEST_SHIFT}",
        "--noorthogonality",
        f"--progress={'epochs' if sys.stdout.isatty() else 'none'}",
        f"--plot={os.path.join(_ROOT, 'demo.png')}",
    ]


def _call(command: list[str]) -> int:
    paths = [_ROOT, os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
    # The input pipeline warns once for each rank and run of what is no fault.
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
