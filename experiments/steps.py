"""Experiment 4: steps of BERT to a target loss, Adam and LAMB, alone and with Adasum.

Alone, an optimizer makes one step of the gradient of the whole batch. With Adasum each of N workers
makes its own step of its part, and the steps are reduced (delta mode).

Source of the claim: Maleki et al., MLSys 2021, section 5: on BERT-Large LAMB with Adasum takes 20 %
fewer epochs than LAMB, and trains at 128K; Adam with Adasum trains at 64K, Adam alone at 16K.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

import keras
import numpy as np
from tabulate import tabulate

from experiments import plots
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.text import text
from experiments.worker_optimizers import MakeOptimizer
from experiments.workers import Workers

# Of the loss on the validation text, which is easier, and on the test's.
CHOOSING_TARGET, TARGET = 5.4, 5.6
# Sequences of the smallest batch.
BATCH = 8


class Point(NamedTuple):
    """A batch.

    Args:
        workers: that share it, where there are several.
        most_steps: after which a training ends without the target.
        every: so many steps the loss is measured.
    """

    workers: int
    most_steps: int
    every: int


# By the factor on the smallest batch. Beyond 16 workers their batches grow.
POINTS = {
    1: Point(1, 960, 40),
    4: Point(4, 400, 20),
    16: Point(16, 220, 5),
    64: Point(16, 120, 5),
}


class Optimizer(NamedTuple):
    """An optimizer, and the rates that are tried, alone and with Adasum."""

    make: MakeOptimizer
    elementwise: bool
    alone: tuple[float, ...]
    with_adasum: tuple[float, ...]


OPTIMIZERS = {
    "adam": Optimizer(keras.optimizers.Adam, True, (0.002, 0.004), (0.001, 0.002)),
    "lamb": Optimizer(keras.optimizers.Lamb, False, (0.01, 0.02), (0.005, 0.01)),
}
REDUCTIONS = ("none", "adasum")
# The seed that chooses a rate, by validation text, and those that are judged, by the test's.
CHOOSING, JUDGED = 100, (0, 1, 2, 3, 4)


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """First the runs that choose a rate for each line and batch, then those that are judged."""
    lines = [line for optimizer in OPTIMIZERS for line in _lines(optimizer)]
    choosing = [{**line, "rate": rate, "seed": CHOOSING} for line in lines for rate in _rates(line)]
    yield from choosing
    if not all(select(runs, **setting) for setting in choosing):
        return
    for line in lines:
        yield from ({**line, "rate": best_rate(runs, line), "seed": seed} for seed in JUDGED)


def _lines(optimizer: str) -> list[dict[str, Any]]:
    return [
        {"optimizer": optimizer, "reduction": reduction, "factor": factor}
        for reduction in REDUCTIONS
        for factor in POINTS
        if reduction == "none" or factor > 1
    ]


def _rates(line: dict[str, Any]) -> tuple[float, ...]:
    optimizer = OPTIMIZERS[line["optimizer"]]
    return optimizer.alone if line["reduction"] == "none" else optimizer.with_adasum


def best_rate(runs: list[Run], line: dict[str, Any]) -> float:
    """The rate that is at the target first; where none is, that of the least loss."""
    tried = select(runs, **line, seed=CHOOSING)

    def least_loss(run: Run) -> float:
        return min((loss for loss in run["losses"] if loss is not None), default=math.inf)

    return min(tried, key=lambda run: (steps_to(run), least_loss(run)))["rate"]


def _target(seed: int) -> float:
    return CHOOSING_TARGET if seed == CHOOSING else TARGET


def steps_to(run: Run) -> float:
    """Steps to the target; infinite where it is not reached."""
    target = _target(run["seed"])
    reached = [loss is not None and loss <= target for loss in run["losses"]]
    every = POINTS[run["factor"]].every
    return (reached.index(True) + 1) * every if any(reached) else math.inf


@functools.cache  # all: each is used to choose and to judge, and to trace it takes seconds
def _workers(optimizer: str, reduction: str, factor: int) -> Workers:
    chosen = OPTIMIZERS[optimizer]
    number = POINTS[factor].workers if reduction == "adasum" else 1
    batch = BATCH * factor // number
    method = Method("adasum", chosen.make, elementwise=chosen.elementwise, batch=batch)
    return Workers(text(), number, method)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains to the target; returns the losses, of the text that counts."""
    task, factor = text(), settings["factor"]
    examples = task.validation if settings["seed"] == CHOOSING else task.test
    workers = _workers(settings["optimizer"], settings["reduction"], factor)
    workers.reset(settings["seed"], settings["rate"])
    losses: list[float] = []
    for batches in _batches(settings):
        workers.train(batches)
        losses.append(round(workers.loss(examples), 4))
        if losses[-1] <= _target(settings["seed"]):
            break
    return {"losses": losses}


def _batches(settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """Numbers of examples, int32 [every, workers, batch], until most_steps are made."""
    factor = settings["factor"]
    point = POINTS[factor]
    number = point.workers if settings["reduction"] == "adasum" else 1
    random = np.random.default_rng(1000 + settings["seed"])
    shape = (point.every, number, BATCH * factor // number)
    for _ in range(0, point.most_steps, point.every):
        yield random.integers(len(text().train.labels), size=shape, dtype=np.int32)


def _judged(runs: list[Run], line: dict[str, Any]) -> list[float]:
    judged = select(runs, **line, rate=best_rate(runs, line))
    return sorted(steps_to(run) for run in judged if run["seed"] in JUDGED)


def report(runs: list[Run]) -> str:
    """Steps to the target by optimizer, reduction and batch, and what Adasum makes of them."""
    rows = []
    for factor in POINTS:
        row = [f"{BATCH * factor}, x{factor}"]
        for optimizer in OPTIMIZERS:
            lines = [line for line in _lines(optimizer) if line["factor"] == factor]
            steps = [_judged(runs, line) for line in lines]
            row += [_cell(runs, line) for line in lines]
            row += [""] if factor == 1 else []
            ratio = median(steps[-1]) / median(steps[0])
            row.append(f"{ratio:.2f}" if factor > 1 and math.isfinite(ratio) else "")
        rows.append(row)
    headers = ["batch"]
    for optimizer in OPTIMIZERS:
        headers += [optimizer, f"{optimizer} + adasum", "ratio"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def _cell(runs: list[Run], line: dict[str, Any]) -> str:
    steps = _judged(runs, line)
    told = ["never" if math.isinf(number) else f"{number}" for number in steps]
    return f"{told[len(told) // 2]} [{told[0]} .. {told[-1]}] at {best_rate(runs, line):g}"


def plot(runs: list[Run], path: str) -> None:
    """Steps to the target over the batch: a panel for each optimizer."""

    def draw(axes, index: int) -> None:
        for reduction in REDUCTIONS:
            points = {
                BATCH * line["factor"]: _judged(runs, line)
                for line in _lines(list(OPTIMIZERS)[index])
                if line["reduction"] == reduction
            }
            plots.spread(axes, reduction, points)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("sequences in a batch")
        axes.set_ylabel(f"steps to a loss of {TARGET}")
        axes.legend(frameon=False)

    plots.save(path, [optimizer.capitalize() for optimizer in OPTIMIZERS], draw)


EXPERIMENT = Experiment(
    "steps", "steps of BERT to a loss, Adam and LAMB, with Adasum", wanted, run, report, plot
)
