"""Tests the claims of Adasum, and writes their tables and plots.

    python -m experiments                  the names of all, with what each is about
    python -m experiments NAME             one experiment
    python -m experiments all --budget=45m    what docs/results.md shows: all but compression

Runs that were made already are not made again: they stand, a line each, in the folder's
NAME.jsonl. The table goes to NAME.md and the plot to NAME.png there.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

from experiments import (
    claim,
    compression,
    gap,
    images,
    local,
    orthogonality,
    rates,
    scaling,
    sequence,
    steps,
    words,
)
from experiments.experiment import Experiment, carry_out, one_by_one
from experiments.processes import Processes, start_tensorflow

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        scaling,
        orthogonality,
        sequence,
        steps,
        words,
        images,
        local,
        rates,
        gap,
        claim,
        compression,
    )
}
# By itself as long as all others, and no claim of Adasum's.
APART = ("compression",)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}

FLAGS = flags.FLAGS
flags.DEFINE_string("folder", "docs/results", "Where runs, tables and plots are.")
flags.DEFINE_integer(
    "jobs",
    min(4, len(os.sched_getaffinity(0))),
    "Runs that are made at once, each by a process with its share of the cores and a few GB.",
    lower_bound=1,
)
flags.DEFINE_string("budget", None, "No run begins later than this, e.g. 45m; default: no end.")


def main(argv: list[str]) -> int:
    """Carries out one experiment, or all; returns the exit code."""
    every = [name for name in EXPERIMENTS if name not in APART]
    names = every if argv[1:] == ["all"] else argv[1:]
    if len(argv) != 2 or not set(names) <= set(EXPERIMENTS):
        list_of_all = "\n".join(f"  {name}: {one.about}" for name, one in EXPERIMENTS.items())
        raise app.UsageError(
            f"expected one of these, or all (but {', '.join(APART)}). "
            f"Received: {' '.join(argv[1:]) or 'nothing'}.\n" + list_of_all
        )
    deadline = time.monotonic() + _seconds(FLAGS.budget)
    with _maker_of_runs(FLAGS.jobs) as make:
        are_done = [carry_out(EXPERIMENTS[name], FLAGS.folder, deadline, make) for name in names]
    for name, is_done in zip(names, are_done):
        if is_done:
            print(f"{name}: {os.path.join(FLAGS.folder, name)}.md, .png")
        else:
            print(f"{name}: the time was over; call it again to go on")
    return 0 if all(are_done) else 1


def _maker_of_runs(jobs: int) -> contextlib.AbstractContextManager:
    """Several processes; or this one, where one is enough."""
    if jobs > 1:
        return Processes(jobs)
    start_tensorflow(1)
    return contextlib.nullcontext(one_by_one)


def _seconds(budget: str | None) -> float:
    if budget is None:
        return float("inf")
    match = re.fullmatch(r"(\d+)([smh]?)", budget)
    if match is None:
        raise app.UsageError(f"expected a budget as 45m, 90s or 2h. Received: {budget!r}.")
    return int(match[1]) * _UNITS[match[2]]


if __name__ == "__main__":
    app.run(main)
