"""Trains the digits network on 4 local ranks, once per reduction, and draws demo.png.

python -m models.digits.demo [flags of models.digits.train]
"""

from __future__ import annotations

import os
import subprocess
import sys

RANKS = 4
TIME_LIMIT_SECONDS = 1800
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(arguments: list[str]) -> int:
    """Starts the ranks; returns their exit code.

    Args:
        arguments: flags of `models.digits.train`, which win over the demo's own.
    """
    plot = os.path.join(_ROOT, "demo.png")
    command = [sys.executable, "-m", "adasumrun", "-np", str(RANKS)]
    command += ["--timeout", str(TIME_LIMIT_SECONDS), sys.executable, "-m", "models.digits.train"]
    command += ["--reduction=mean,sum,adasum", f"--plot={plot}", *arguments]
    if {"-h", "--help"} & set(arguments):
        command = [sys.executable, "-m", "models.digits.train", "--help"]
        print(__doc__)
    paths = [_ROOT, os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
    # The input pipeline warns once for each rank and run of what is no fault.
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
