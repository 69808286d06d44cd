"""Experiment 5: analogy accuracy of word vectors, one worker against 32.

Skip-gram with negative sampling on sentences with planted analogies, SGD whose rate falls to 0. A
rate is that of one pair, as the field counts it. N workers' mean at the rate N r makes the steps of
their sum at r: so the mean is tried at 32 times the others' rates, and the sum is not tuned again.

Source of the claim: the slides of Maleki et al., MLSys 2021: word2vec on 32 nodes reaches the
accuracy of the sequential training.
"""

from __future__ import annotations

import functools
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
from models.digits.results import COLORS, label
from models.word2vec import analogies

NUMBER = 32
BATCH = 16
# Passes over the text, and the rates that are tried: the longer training takes the lower ones. The
# mean's are NUMBER times as large.
RATES = {1: (0.1, 0.14, 0.2, 0.28, 0.4), 2: (0.07, 0.1, 0.14, 0.2)}
PASSES = tuple(RATES)
ONE = {"workers": 1, "reduction": "none"}
KINDS = (ONE, *({"workers": NUMBER, "reduction": name} for name in ("adasum", "mean")))
SUM = {"workers": NUMBER, "reduction": "sum"}
# Seeds that choose the rate, by questions that don't judge, and seeds that are judged.
CHOOSING, JUDGED = (100, 101), (0, 1, 2, 3, 4)
# The rate falls, and the accuracy is measured, after each of so many parts of a training.
PARTS = 16


def rates(kind: dict[str, Any], passes: int) -> list[float]:
    """The rates that are tried, as many for each kind."""
    factor = NUMBER if kind["reduction"] == "mean" else 1
    return [factor * rate for rate in RATES[passes]]


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """First the runs that choose the rates, then those that are judged."""
    choosing = [
        {**kind, "passes": passes, "rate": rate, "seed": seed}
        for kind in KINDS
        for passes in PASSES
        for rate in rates(kind, passes)
        for seed in CHOOSING
    ]
    yield from choosing
    if not all(select(runs, **setting) for setting in choosing):
        return
    for kind in (*KINDS, SUM):
        for passes in PASSES:
            for rate in sorted({untouched_rate(runs, passes), best_rate(runs, kind, passes)}):
                chosen = {**kind, "passes": passes, "rate": rate}
                yield from ({**chosen, "seed": seed} for seed in JUDGED)


def best_rate(runs: list[Run], kind: dict[str, Any], passes: int) -> float:
    """The rate of the best validation accuracy, the median over the seeds that choose."""
    if kind == SUM:
        return untouched_rate(runs, passes)
    curve = _curve(runs, kind, passes)
    return max(curve, key=curve.get)


def untouched_rate(runs: list[Run], passes: int) -> float:
    """One worker's best rate."""
    return best_rate(runs, ONE, passes)


def _curve(runs: list[Run], kind: dict[str, Any], passes: int) -> dict[float, float]:
    of_kind = [run for run in select(runs, **kind, passes=passes) if run["seed"] in CHOOSING]
    return {
        rate: median(run["validation"] for run in select(of_kind, rate=rate))
        for rate in rates(kind, passes)
    }


@functools.lru_cache(maxsize=1)
def _workers(number: int, reduction: str) -> Workers:
    reduction = "mean" if reduction == "none" else reduction
    method = Method(reduction, lambda: keras.optimizers.SGD(0.1), batch=BATCH)
    return Workers(tasks.words(max(PASSES)), number, method)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns accuracies, the test's after each part, and the orthogonality."""
    task = tasks.words(max(PASSES))
    workers = _workers(settings["workers"], settings["reduction"])
    workers.reset(settings["seed"], 0)
    curve, orthogonality = [], []
    for part, batches in enumerate(np.array_split(_batches(settings), PARTS)):
        # The mean over a batch: a pair's own step is this by BATCH.
        workers.set_rate(BATCH * settings["rate"] * (1 - part / PARTS))
        workers.train(batches)
        curve.append(_accuracy(workers, task.test))
        orthogonality.append(float(workers.orthogonality.mean()))
    return {
        "validation": _accuracy(workers, task.validation),
        "test": curve[-1],
        "curve": np.round(curve, 4).tolist(),
        "orthogonality": np.round(orthogonality, 4).tolist(),
    }


def _batches(settings: dict[str, Any]) -> np.ndarray:
    """Numbers of examples, one pass after the other, int32 [steps, workers, BATCH]."""
    random = np.random.default_rng(1000 + settings["seed"])
    numbers = np.arange(len(tasks.words(max(PASSES)).train.labels), dtype=np.int32)
    of_passes = np.array_split(numbers, max(PASSES))[: settings["passes"]]
    order = np.concatenate([random.permutation(of_pass) for of_pass in of_passes])
    together = settings["workers"] * BATCH
    order = order[: len(order) // together * together]
    return order.reshape(-1, settings["workers"], BATCH)


def _accuracy(workers: Workers, questions: tasks.Examples) -> float:
    vectors = workers.model.get_layer("vectors").embeddings.numpy()
    return analogies.accuracy(vectors, np.column_stack(questions))


def _judged(runs: list[Run], kind: dict[str, Any], passes: int, rate: float) -> list[Run]:
    group = select(runs, **kind, passes=passes, rate=rate)
    return [run for run in group if run["seed"] in JUDGED]


def _cell(runs: list[Run], kind: dict[str, Any], passes: int, rate: float) -> str:
    values = [run["test"] for run in _judged(runs, kind, passes, rate)]
    return f"{plots.percent(values)} at {rate:g}"


def report(runs: list[Run]) -> str:
    """A line for each reduction: one pass and two, the rate untouched and tuned."""
    rows = []
    for kind in (*KINDS, SUM):
        row: list[Any] = [kind["workers"], kind["reduction"]]
        for passes in PASSES:
            row.append(_cell(runs, kind, passes, untouched_rate(runs, passes)))
            tuned = {ONE["reduction"]: "the same", SUM["reduction"]: "the mean's"}
            best = best_rate(runs, kind, passes)
            row.append(tuned.get(kind["reduction"]) or _cell(runs, kind, passes, best))
        rows.append(row)
    headers = ["workers", "reduction"]
    for passes in PASSES:
        name = "1 pass" if passes == 1 else f"{passes} passes"
        headers += [f"{name}, untouched", f"{name}, tuned"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """Validation accuracy over the rate, and test accuracy over the training, rate untouched."""

    def over_rate(axes, passes: int) -> None:
        for kind in KINDS:
            curve = _curve(runs, kind, passes)
            axes.plot(*zip(*curve.items()), "o-", **_style(kind))
        axes.set_xscale("log")
        axes.set_xlabel("learning rate of a pair")
        axes.set_ylabel("validation accuracy")

    def over_training(axes, passes: int) -> None:
        for kind in (*KINDS, SUM):
            group = _judged(runs, kind, passes, untouched_rate(runs, passes))
            medians = np.median([run["curve"] for run in group], axis=0)
            axes.plot(np.arange(1, PARTS + 1) / PARTS, medians, **_style(kind))
        axes.set_xlabel("share of the training")
        axes.set_ylabel("test accuracy")

    titles = [f"Passes: {passes}" for passes in PASSES]
    titles += [f"{PASSES[-1]} passes, one worker's rate"]

    def draw(axes, index: int) -> None:
        if index < len(PASSES):
            over_rate(axes, PASSES[index])
        else:
            over_training(axes, PASSES[-1])
        axes.set_ylim(0, 1)
        axes.legend(frameon=False, fontsize="small")

    plots.save(path, titles, draw)


def _style(kind: dict[str, Any]) -> dict[str, Any]:
    name = label(kind["reduction"])
    return {
        "color": COLORS[kind["reduction"]],
        "label": name if kind == ONE else f"{kind['workers']} workers, {name}",
        "markersize": 3,
    }


EXPERIMENT = Experiment(
    "words", "analogy accuracy of word vectors, one worker and 32", wanted, run, report, plot
)
