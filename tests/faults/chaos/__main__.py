"""Kills and stops random ranks of a training that starts again each time.

PYTHONPATH=. python -m tests.faults.chaos --kills=50 --seed=0
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys

from adasumrun import argument_types
from tests.faults.chaos import run


def main(argv: list[str] | None = None) -> int:
    """Runs it and prints a table; returns 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="tests.faults.chaos", description=__doc__.split("\n")[0])
    positive = argument_types.positive
    parser.add_argument("--kills", type=positive, default=50, help="how many (default: 50)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the moments, ranks and signals (default: 0)"
    )
    parser.add_argument("--ranks", type=positive, default=4, help="of the training (default: 4)")
    options = parser.parse_args(argv)
    # So that the job ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    outcome = run.run(options.kills, options.seed, options.ranks)
    print(table(outcome.kills))
    faults = outcome.faults()
    for fault in faults:
        print(f"chaos: {fault}")
    if faults:
        print(outcome.log)
        return 1
    print("chaos: no hang, nothing left, the values of an undisturbed run bit by bit")
    return 0


def table(kills: list[run.Kill]) -> str:
    """Returns how long the end of a job takes, as Markdown."""
    lines = [
        "| moment | signal | times | median s | longest s |",
        "| --- | --- | --- | --- | --- |",
    ]
    for moment, name in sorted({(kill.moment, kill.name) for kill in kills}):
        seconds = [kill.seconds for kill in kills if (kill.moment, kill.name) == (moment, name)]
        numbers = f"{len(seconds)} | {statistics.median(seconds):.1f} | {max(seconds):.1f}"
        lines.append(f"| {moment} | {name} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
