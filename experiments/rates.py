"""Experiment 8: which learning rate to set for N workers, with a tuned script of one worker.

Accuracy over the learning rate for 1, 8 and 32 workers, by Adasum, for several optimizers, whose
steps are reduced (delta mode) or the gradients that they make one step of (gradient mode).
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

NUMBERS = (1, 8, 32)
MODES = ("delta", "gradient")
SEEDS = (0, 1, 2)
EPOCHS = 2
# Each with the rates that are tried: a factor of two apart, to where one worker diverges.
OPTIMIZERS = {
    "sgd": (lambda: keras.optimizers.SGD(0.1), 0.025, 7),
    "momentum": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), 0.005, 7),
    "adam": (lambda: keras.optimizers.Adam(0.1), 0.0005, 7),
    "lamb": (lambda: keras.optimizers.Lamb(0.1), 0.001, 7),
}


def rates(optimizer: str) -> list[float]:
    """The rates that are tried."""
    _, least, number = OPTIMIZERS[optimizer]
    return [least * 2**i for i in range(number)]


def kinds() -> list[dict[str, Any]]:
    """One worker has no mode: reduced or not, it makes its own step."""
    return [
        {"optimizer": optimizer, "mode": mode, "workers": number}
        for optimizer in OPTIMIZERS
        for number in NUMBERS
        for mode in (MODES if number > 1 else MODES[:1])
    ]


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All kinds, rates and seeds."""
    for kind in kinds():
        for rate in rates(kind["optimizer"]):
            yield from ({**kind, "rate": rate, "seed": seed} for seed in SEEDS)


@functools.lru_cache(maxsize=1)
def _workers(optimizer: str, mode: str, number: int) -> Workers:
    make, _, _ = OPTIMIZERS[optimizer]
    method = Method("adasum", make, mode, elementwise=optimizer != "lamb")
    return Workers(tasks.generated(), number, method)


def run(settings: dict[str, Any]) -> dict[str, float]:
    """Trains; returns the validation accuracy, since no choice is judged here."""
    workers = _workers(settings["optimizer"], settings["mode"], settings["workers"])
    workers.reset(settings["seed"], settings["rate"])
    for _ in range(EPOCHS):
        workers.train_epoch()
    return {"validation": workers.accuracy(tasks.generated().validation)}


def _curve(runs: list[Run], kind: dict[str, Any]) -> dict[float, list[float]]:
    return {
        rate: [run["validation"] for run in select(runs, **kind, rate=rate)]
        for rate in rates(kind["optimizer"])
    }


def report(runs: list[Run]) -> str:
    """A line for each optimizer: of each kind the best rate, and what one worker's best gives."""
    rows = []
    for optimizer in OPTIMIZERS:
        curves = [
            {rate: median(values) for rate, values in _curve(runs, kind).items()}
            for kind in kinds()
            if kind["optimizer"] == optimizer
        ]
        untouched = max(curves[0], key=curves[0].get)
        bests = [max(curve, key=curve.get) for curve in curves]
        cells = [f"{best:g}: {100 * curve[best]:.2f}" for best, curve in zip(bests, curves)]
        others = [f" ({100 * curve[untouched]:.2f})" for curve in curves[1:]]
        rows.append([optimizer, *map("".join, zip(cells, ["", *others]))])
    headers = ["optimizer", "1"] + [f"{n}, {mode}" for n in NUMBERS[1:] for mode in MODES]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """Accuracy over the rate, a panel for each optimizer."""
    optimizers = list(OPTIMIZERS)
    colors = dict(zip(NUMBERS, ("#555555", "#0072b2", "#cc3311")))
    styles = {"delta": "-", "gradient": "--"}

    def draw(axes, index: int) -> None:
        for kind in kinds():
            if kind["optimizer"] != optimizers[index]:
                continue
            curve = {rate: median(values) for rate, values in _curve(runs, kind).items()}
            number, mode = kind["workers"], kind["mode"]
            name = "one worker" if number == 1 else f"{number}, {mode}"
            axes.plot(*zip(*curve.items()), styles[mode], color=colors[number], label=name)
        axes.set_xscale("log")
        axes.set_ylim(0.9, 1)
        axes.set_xlabel("learning rate")
        axes.legend(frameon=False, fontsize="small")

    plots.save(path, optimizers, draw, width=4)


EXPERIMENT = Experiment(
    "rates",
    "accuracy over the rate for 1, 8 and 32 workers, by optimizer",
    wanted,
    run,
    report,
    plot,
)
