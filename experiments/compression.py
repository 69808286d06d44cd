"""Experiment 11: accuracy against bytes on the wire, by codec, reduction and optimizer.

What workers exchange is encoded by the library as between so many ranks. Each line trains at the
rate of one worker's optimizer, untouched, and at the best of several for that line.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from statistics import median
from typing import Any

from tabulate import tabulate

from experiments import plots, tasks
from experiments.compression_lines import FAMILIES
from experiments.encoded_exchange import share_of_bytes, share_of_sketches
from experiments.exchanging_optimizers import SketchedOptimizer
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers

NUMBERS = (8, 32)
# Of tasks, both with a network of one hidden layer.
EPOCHS = {"generated": 2, "digits": 20}
HIDDEN = 512
TASKS = {
    "generated": lambda: tasks.generated(hidden=HIDDEN),
    "digits": lambda: tasks.flat_digits(hidden=HIDDEN),
}
BATCH = 32
CHOOSING, JUDGED = (100,), (0, 1, 2, 3, 4)


def kinds() -> list[dict[str, Any]]:
    """Tasks, numbers of workers, families and lines."""
    return [
        {"task": task, "workers": number, "family": family, "line": line}
        for task in EPOCHS
        for number in NUMBERS
        for family, members in FAMILIES.items()
        for line in members.lines
    ]


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """First the runs that choose the rates, then those that are judged."""
    choosing = [
        {**kind, "rate": rate, "seed": seed}
        for kind in kinds()
        for rate in FAMILIES[kind["family"]].rates
        for seed in CHOOSING
    ]
    yield from choosing
    if not all(select(runs, **setting) for setting in choosing):
        return
    for kind in kinds():
        for rate in sorted({FAMILIES[kind["family"]].untouched, best_rate(runs, kind)}):
            yield from ({**kind, "rate": rate, "seed": seed} for seed in JUDGED)


def best_rate(runs: list[Run], kind: dict[str, Any]) -> float:
    """The rate of the best validation accuracy."""

    def accuracy(rate: float) -> float:
        chosen = [run for run in select(runs, **kind, rate=rate) if run["seed"] in CHOOSING]
        return median(run["validation"] for run in chosen)

    return max(FAMILIES[kind["family"]].rates, key=accuracy)


def run(settings: dict[str, Any]) -> dict[str, float]:
    """Trains; returns accuracies."""
    kind = [settings[name] for name in ("task", "workers", "family", "line")]
    task, workers = TASKS[settings["task"]](), _workers(*kind)
    workers.reset(settings["seed"], settings["rate"])
    for _ in range(EPOCHS[settings["task"]]):
        workers.train_epoch()
    return {
        "validation": workers.accuracy(task.validation),
        "test": workers.accuracy(task.test),
    }


@functools.lru_cache(maxsize=1)
def _workers(task: str, number: int, family: str, line: str) -> Workers:
    chosen, learned = FAMILIES[family].lines[line], TASKS[task]()
    steps = _num_steps(task, number)
    method = Method(
        chosen.reduction,
        lambda: chosen.make(steps),
        chosen.mode,
        elementwise=chosen.elementwise,
        batch=BATCH,
        compression=chosen.compression,
        keeps_lost=chosen.keeps_lost,
        steps_per_sync=chosen.steps_per_sync,
        exchanging=chosen.exchanging,
    )
    return Workers(learned, number, method)


def _num_steps(task: str, number: int) -> int:
    return EPOCHS[task] * (len(TASKS[task]().train.labels) // (number * BATCH))


@functools.cache
def _fewer_bytes(task: str, number: int, family: str, line: str) -> tuple[float, float]:
    """How many times less an encoded exchange takes, and all that a training exchanges."""
    chosen = FAMILIES[family].lines[line]
    weights = [variable.value for variable in TASKS[task]().build().trainable_variables]
    share = (
        share_of_sketches(weights, chosen.make(1))
        if chosen.exchanging is SketchedOptimizer
        else share_of_bytes(weights, chosen.compression, number)
    )
    exchanges = chosen.exchanges(_num_steps(task, number))
    return 1 / share, 1 / (exchanges.plain + exchanges.encoded * share)


def _tests(runs: list[Run], kind: dict[str, Any], rate: float) -> list[float]:
    judged = [run for run in select(runs, **kind, rate=rate) if run["seed"] in JUDGED]
    return [run["test"] for run in judged]


def report(runs: list[Run]) -> str:
    """A table for each task and family: a line for each of its lines."""
    tables = []
    for task in EPOCHS:
        for family, members in FAMILIES.items():
            headers = [f"{task}, {family}"]
            for number in NUMBERS:
                headers += [f"{number}: fewer bytes", f"at {members.untouched:g}", "tuned"]
            rows = [[line, *_cells(runs, task, family, line)] for line in members.lines]
            tables.append(tabulate(rows, headers, "github", disable_numparse=True))
    return "\n\n".join(tables)


def _cells(runs: list[Run], task: str, family: str, line: str) -> Iterator[str]:
    untouched = FAMILIES[family].untouched
    for number in NUMBERS:
        kind = {"task": task, "workers": number, "family": family, "line": line}
        encoded, whole = _fewer_bytes(task, number, family, line)
        yield f"{encoded:.0f}x" + (f", in all {whole:.1f}x" if whole != encoded else "")
        yield plots.percent(_tests(runs, kind, untouched))
        tuned = best_rate(runs, kind)
        yield f"{plots.percent(_tests(runs, kind, tuned))} at {tuned:g}"


def plot(runs: list[Run], path: str) -> None:
    """Tuned test errors over bytes, a panel for each task and number of workers, and the front."""
    panels = [(task, number) for task in EPOCHS for number in NUMBERS]

    def draw(axes, index: int) -> None:
        task, number = panels[index]
        points = []
        for family, marker in zip(FAMILIES, "osD^"):
            for line in FAMILIES[family].lines:
                kind = {"task": task, "workers": number, "family": family, "line": line}
                error = 1 - median(_tests(runs, kind, best_rate(runs, kind)))
                share = 1 / _fewer_bytes(task, number, family, line)[1]
                points.append((share, error))
                color = "#0072b2" if "adasum" in line else "#e69f00"
                face = "white" if "no feedback" in line else color
                axes.plot(share, error, marker, color=color, markerfacecolor=face, ms=5)
            axes.plot([], [], marker, color="#555555", ms=5, label=family)
        axes.step(*zip(*_front(points)), where="post", color="#555555", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("bytes, of an exchange of every step as it is")
        axes.set_ylabel("test error")
        if index == 0:
            axes.legend(frameon=False, fontsize="small")

    plots.save(path, [f"{task}, {number} workers" for task, number in panels], draw)


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other one beats in both, from the fewest bytes on."""
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


EXPERIMENT = Experiment(
    "compression", "accuracy against bytes on the wire, by codec", wanted, run, report, plot
)
