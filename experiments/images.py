"""Experiment 6: epochs of ResNet-8 to a target, at a batch 16 times larger.

Source of the claim: Maleki et al., MLSys 2021, section 5: ResNet-50 at a batch of 16K on 64 GPUs
gets to 74.9 % with Adasum, and never by averaging. Here 16 workers have 16 images each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import keras
from tabulate import tabulate

from experiments import plots
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.textures import textures
from experiments.workers import Workers

NUMBER, BATCH = 16, 16
REDUCTIONS = ("adasum", "mean", "sum")
TARGET, MOST_EPOCHS = 0.7, 14
ONE_WORKER = {"workers": 1, "reduction": "none"}
ONE_WORKERS_RATES = (0.025, 0.05, 0.1, 0.2)
# Three for each, a factor of two apart: around the best of (0.025, 0.1, 0.2, 0.4, 1.6), which were
# tried once (docs/results/images.jsonl at commit 9583c02).
RATES = {"adasum": (0.1, 0.2, 0.4), "mean": (0.2, 0.4, 0.8), "sum": (0.05, 0.1, 0.2)}
# The seed that chooses a rate, by the validation images, and those that are judged, by the test's.
CHOOSING, JUDGED = 100, (0, 1, 2, 3, 4)


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """What chooses one worker's rate, then what chooses the others', then what is judged."""
    choosing = [{**ONE_WORKER, "seed": CHOOSING, "rate": rate} for rate in ONE_WORKERS_RATES]
    yield from choosing
    if not all(select(runs, **setting) for setting in choosing):
        return
    tuned = [
        {**kind, "seed": CHOOSING, "rate": rate}
        for kind in _kinds()
        for rate in RATES[kind["reduction"]]
    ]
    yield from tuned
    if not all(select(runs, **setting) for setting in tuned):
        return
    for kind in (ONE_WORKER, *_kinds()):
        for rate in sorted({untouched_rate(runs), best_rate(runs, kind)}):
            yield from ({**kind, "seed": seed, "rate": rate} for seed in JUDGED)


def _kinds() -> list[dict[str, Any]]:
    return [{"workers": NUMBER, "reduction": reduction} for reduction in REDUCTIONS]


def untouched_rate(runs: list[Run]) -> float:
    """One worker's best."""
    return best_rate(runs, ONE_WORKER)


def best_rate(runs: list[Run], kind: dict[str, Any]) -> float:
    """The rate that is at the target first; where none is, that of the best accuracy."""
    tried = select(runs, **kind, seed=CHOOSING)
    return min(tried, key=lambda run: (epochs_to(run), -max(run["accuracies"])))["rate"]


def epochs_to(run: Run) -> int:
    """Epochs to the target; one more than there are where it is not reached."""
    reached = [accuracy >= TARGET for accuracy in run["accuracies"]]
    return reached.index(True) + 1 if any(reached) else MOST_EPOCHS + 1


@functools.cache  # all: each is used to choose and to judge, and to trace it takes seconds
def _workers(number: int, reduction: str) -> Workers:
    momentum = functools.partial(keras.optimizers.SGD, 0.1, momentum=0.9)
    reduction = "mean" if reduction == "none" else reduction
    return Workers(textures(), number, Method(reduction, momentum, batch=BATCH))


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains to the target; returns the accuracy after each epoch, on the images that count."""
    task = textures()
    examples = task.validation if settings["seed"] == CHOOSING else task.test
    workers = _workers(settings["workers"], settings["reduction"])
    workers.reset(settings["seed"], settings["rate"])
    accuracies: list[float] = []
    while len(accuracies) < MOST_EPOCHS and max(accuracies, default=0) < TARGET:
        workers.train_epoch()
        accuracies.append(workers.accuracy(examples))
    return {"accuracies": accuracies}


def _judged(runs: list[Run], kind: dict[str, Any], rate: float) -> list[Run]:
    return [run for run in select(runs, **kind, rate=rate) if run["seed"] in JUDGED]


def _cell(runs: list[Run], kind: dict[str, Any], rate: float) -> str:
    numbers = sorted(epochs_to(run) for run in _judged(runs, kind, rate))
    told = [f"> {MOST_EPOCHS}" if number > MOST_EPOCHS else f"{number}" for number in numbers]
    return f"{told[len(told) // 2]} [{told[0]} .. {told[-1]}]"


def report(runs: list[Run]) -> str:
    """Epochs to the target by reduction, the rate untouched and tuned."""
    untouched = untouched_rate(runs)
    rows = [["1, one worker", _cell(runs, ONE_WORKER, untouched), f"at {untouched:g}"]]
    for kind in _kinds():
        rate = best_rate(runs, kind)
        tuned = f"{_cell(runs, kind, rate)} at {rate:g}"
        rows.append([f"{NUMBER}, {kind['reduction']}", _cell(runs, kind, untouched), tuned])
    headers = ["workers", f"epochs to {TARGET:.0%}, rate {untouched:g}", "tuned"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """Test accuracy over the epochs, to the target: rate untouched, and tuned."""
    untouched = untouched_rate(runs)

    def draw(axes, index: int) -> None:
        for kind in (ONE_WORKER, *_kinds()):
            rate = best_rate(runs, kind) if index else untouched
            for number, run in enumerate(_judged(runs, kind, rate)):
                name = plots.label(kind["reduction"]) if number == 0 else None
                epochs = range(1, len(run["accuracies"]) + 1)
                color = plots.COLORS[kind["reduction"]]
                axes.plot(epochs, run["accuracies"], color=color, linewidth=1, label=name)
        axes.axhline(TARGET, color="0.4", linewidth=1, linestyle=":")
        axes.set_xlabel("epoch")
        axes.set_ylabel("test accuracy")
        axes.legend(frameon=False)

    plots.save(path, [f"Rate untouched ({untouched:g})", "Rate tuned"], draw)


EXPERIMENT = Experiment(
    "images", "epochs of ResNet-8 to a target at 16 times the batch", wanted, run, report, plot
)
