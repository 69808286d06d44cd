"""Epochs to a target on digits with 1, 8 and 32 workers, the learning rate of one untouched.

What `make demo` shows of one seed, here of five, with the same network, optimizer and batch. The
target is 1.5 points below the best accuracy of one worker at the same rate. The second rate, 0.03,
is as large as one worker bears.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import keras

from experiments import tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers
from models.digits import claim_report
from models.digits import settings as digits

SEEDS = (0, 1, 2, 3, 4)
# Numbers of workers for each rate. One worker has nothing to reduce.
NUMBERS = {digits.LEARNING_RATE: (1, 8, 32), 0.03: (1, 32)}
REDUCTIONS = {digits.LEARNING_RATE: ("adasum", "mean", "sum"), 0.03: ("adasum", "mean")}


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All rates, numbers of workers, reductions and seeds."""
    del runs
    for rate, numbers in NUMBERS.items():
        for number in numbers:
            for reduction in REDUCTIONS[rate] if number > 1 else ("none",):
                kind = {"learning_rate": rate, "workers": number, "reduction": reduction}
                yield from ({**kind, "seed": seed} for seed in SEEDS)


@functools.lru_cache(maxsize=1)
def _workers(number: int, reduction: str) -> Workers:
    method = Method(reduction, lambda: keras.optimizers.SGD(0.1, momentum=0.9))
    return Workers(tasks.digits(), number, method)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns the test accuracy after each epoch."""
    reduction = "mean" if settings["workers"] == 1 else settings["reduction"]
    workers = _workers(settings["workers"], reduction)
    workers.reset(settings["seed"], settings["learning_rate"])
    accuracies = []
    for _ in range(digits.DEMO_EPOCHS):
        workers.train_epoch()
        accuracies.append(workers.accuracy(tasks.digits().test))
    return {"accuracies": accuracies}


def report(runs: list[Run]) -> str:
    """A table for each rate."""
    tables = (
        f"Rate {rate:g}:\n\n{claim_report.table(select(runs, learning_rate=rate))}"
        for rate in NUMBERS
    )
    return "\n\n".join(tables)


def plot(runs: list[Run], path: str) -> None:
    """Test error over the epochs at the rate of the demo."""
    claim_report.plot(select(runs, learning_rate=digits.LEARNING_RATE), path)


EXPERIMENT = Experiment(
    "claim", "epochs to a target on digits, as make demo", wanted, run, report, plot
)
