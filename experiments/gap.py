"""Experiment 9: why 32 workers end below one on digits, with rates that one worker bears.

Arms that differ from Adasum with a constant rate in one thing each: the rate decays, the rate grows
at the end, each worker's batch is smaller (more steps, more noise in each), or the weights of the
last epochs are averaged (what is noise between epochs goes away). One worker has the first and the
last as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import keras
import numpy as np
from tabulate import tabulate

from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers
from models.digits import settings as digits

EPOCHS = 40
SEEDS = (0, 1, 2, 3, 4)
# Epochs at the end whose accuracies, and whose weights, are averaged.
LAST = 10


def _constant(_: float) -> float:
    return 1


def _decay(progress: float) -> float:
    """A cosine from 1 to 0 in the second half."""
    return 1 if progress < 0.5 else 0.5 * (1 + math.cos(math.pi * (2 * progress - 1)))


def _raised(progress: float) -> float:
    """Twice the rate in the last third."""
    return 1 if progress < 2 / 3 else 2


# Workers, images of each, and the rate over the training.
ARMS = {
    "one worker": (1, digits.BATCH_SIZE, _constant),
    "one worker, rate decays": (1, digits.BATCH_SIZE, _decay),
    "32 workers": (32, digits.BATCH_SIZE, _constant),
    "32 workers, rate decays": (32, digits.BATCH_SIZE, _decay),
    "32 workers, rate doubled late": (32, digits.BATCH_SIZE, _raised),
    "32 workers, 8 images each": (32, 8, _constant),
}


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All arms and seeds."""
    del runs
    for arm in ARMS:
        yield from ({"arm": arm, "seed": seed} for seed in SEEDS)


@functools.lru_cache(maxsize=1)
def _workers(number: int, batch: int) -> Workers:
    method = Method("adasum", lambda: keras.optimizers.SGD(0.1, momentum=0.9), batch=batch)
    return Workers(tasks.digits(), number, method)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns test accuracies by epoch, and of the mean of the last epochs' weights."""
    task = tasks.digits()
    number, batch, rate_at = ARMS[settings["arm"]]
    workers = _workers(number, batch)
    workers.reset(settings["seed"], digits.LEARNING_RATE)
    accuracies, last = [], []
    for epoch in range(EPOCHS):
        workers.set_rate(digits.LEARNING_RATE * rate_at(epoch / EPOCHS))
        workers.train_epoch()
        accuracies.append(workers.accuracy(task.test))
        if epoch >= EPOCHS - LAST:
            last.append(workers.weights())
    found = {
        "accuracies": accuracies,
        "train": workers.accuracy(task.train),
        "orthogonality": float(np.mean(workers.orthogonality)),
    }
    workers.move_to([np.mean(of_epochs, axis=0) for of_epochs in zip(*last)], 0)
    return {**found, "averaged": workers.accuracy(task.test)}


def report(runs: list[Run]) -> str:
    """A line for each arm."""
    rows = []
    for arm in ARMS:
        group = select(runs, arm=arm)
        rows.append(
            [
                arm,
                plots.percent([median(run["accuracies"][-LAST:]) for run in group]),
                plots.percent([run["averaged"] for run in group]),
                plots.percent([max(run["accuracies"]) for run in group]),
                plots.percent([run["train"] for run in group]),
                f"{median(run['orthogonality'] for run in group):.2f}",
            ]
        )
    headers = ["arm", f"test, last {LAST} epochs", "their weights averaged", "best epoch"]
    return tabulate(rows, [*headers, "training set", "orthogonality"], "github")


def plot(runs: list[Run], path: str) -> None:
    """Test error over the epochs, a line for each arm."""

    def draw(axes, _: int) -> None:
        for arm, (number, _, _) in ARMS.items():
            by_epoch = zip(*(run["accuracies"] for run in select(runs, arm=arm)))
            errors = [1 - median(values) for values in by_epoch]
            axes.plot(range(1, EPOCHS + 1), errors, "--" if number == 1 else "-", label=arm)
        axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.set_ylabel("test error")
        axes.legend(frameon=False, fontsize="small")

    plots.save(path, ["Digits, momentum 0.02"], draw, width=7)


EXPERIMENT = Experiment("gap", "why 32 workers end below one on digits", wanted, run, report, plot)
