"""Experiment 1: accuracy over the number of workers, the learning rate untouched, and tuned.

Source of the claim: Maleki et al., MLSys 2021, and its slides: with tuned rates averaging fails at
16 workers, Adasum still works at 32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from statistics import median
from typing import Any

import keras
from tabulate import tabulate

from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers

WORKERS = (1, 4, 8, 16, 32, 64)
REDUCTIONS = ("adasum", "mean", "sum")
# The same for every point: none is given more tries than another.
RATES = tuple(0.0125 * 2**i for i in range(11))
# Seeds that choose the rate, by the validation examples, and seeds that are judged, by the test's.
CHOOSING, JUDGED = (100, 101), (0, 1, 2, 3, 4)
EPOCHS = 2


def kinds() -> list[dict[str, Any]]:
    """Numbers of workers and reductions; one worker has nothing to reduce."""
    return [
        {"workers": number, "reduction": reduction}
        for number in WORKERS
        for reduction in (REDUCTIONS if number > 1 else ("none",))
    ]


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """First the runs that choose the rates, then those that are judged."""
    choosing = [
        {**kind, "seed": seed, "rate": rate}
        for kind in kinds()
        for rate in RATES
        for seed in CHOOSING
    ]
    yield from choosing
    if not all(select(runs, **setting) for setting in choosing):
        return
    for kind in kinds():
        for rate in sorted({untouched_rate(runs), best_rate(runs, kind)}):
            yield from ({**kind, "seed": seed, "rate": rate} for seed in JUDGED)


def best_rate(runs: list[Run], kind: dict[str, Any]) -> float:
    """The rate of the best validation accuracy, the median over the seeds that choose."""
    return max(
        RATES,
        key=lambda rate: median(
            run["validation"] for run in select(runs, **kind, rate=rate) if run["seed"] in CHOOSING
        ),
    )


def untouched_rate(runs: list[Run]) -> float:
    """One worker's best rate."""
    return best_rate(runs, {"workers": 1, "reduction": "none"})


def run(settings: dict[str, Any]) -> dict[str, float]:
    """Trains; returns accuracies."""
    task = tasks.generated()
    workers = _workers(settings["workers"], settings["reduction"])
    workers.reset(settings["seed"], settings["rate"])
    losses = [workers.train_epoch() for _ in range(EPOCHS)]
    return {
        "loss": losses[-1],
        "validation": workers.accuracy(task.validation),
        "test": workers.accuracy(task.test),
    }


@functools.lru_cache(maxsize=1)
def _workers(number: int, reduction: str) -> Workers:
    """Kept for the next run of the kind: it takes as long to trace as to train."""
    reduction = "mean" if reduction == "none" else reduction
    method = Method(reduction, lambda: keras.optimizers.SGD(0.1))
    return Workers(tasks.generated(), number, method)


def judged(runs: list[Run], kind: dict[str, Any], rate: float) -> list[float]:
    """Test accuracies of the seeds that are judged."""
    return [run["test"] for run in select(runs, **kind, rate=rate) if run["seed"] in JUDGED]


def report(runs: list[Run]) -> str:
    """A line for each number of workers."""
    rows = []
    for number in WORKERS:
        row: list[Any] = [number]
        of_number = [kind for kind in kinds() if kind["workers"] == number]
        row += [plots.percent(judged(runs, kind, untouched_rate(runs))) for kind in of_number]
        row += [""] * (4 - len(row))
        for kind in of_number:
            rate = best_rate(runs, kind)
            row.append(f"{plots.percent(judged(runs, kind, rate))} at {rate:g}")
        rows.append(row + [""] * (7 - len(row)))
    untouched = f"untouched rate {untouched_rate(runs):g}"
    headers = ["workers"] + [f"{reduction}, {untouched}" for reduction in REDUCTIONS]
    headers += [f"{reduction}, tuned" for reduction in REDUCTIONS]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """Accuracy over workers: rate untouched, and tuned."""

    def draw(axes, index: int) -> None:
        for reduction in REDUCTIONS:
            points = {}
            for kind in kinds():
                if kind["reduction"] not in (reduction, "none"):
                    continue
                rate = best_rate(runs, kind) if index else untouched_rate(runs)
                points[kind["workers"]] = judged(runs, kind, rate)
            plots.spread(axes, reduction, points)
        axes.set_xscale("log", base=2)
        axes.set_xticks(WORKERS, [str(number) for number in WORKERS])
        axes.set_ylim(0.94 if index == 0 else 0.98, 1)
        axes.set_xlabel("workers")
        axes.set_ylabel("test accuracy")
        axes.legend(frameon=False)

    plots.save(path, [f"Rate untouched ({untouched_rate(runs):g})", "Rate tuned per point"], draw)


EXPERIMENT = Experiment(
    "scaling", "accuracy over 1 to 64 workers, rate untouched and tuned", wanted, run, report, plot
)
