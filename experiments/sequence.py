"""Experiment 3: how far one combined step of N workers ends from N steps one after the other.

    |w_combined - w_sequence| / |w_sequence - w|

from the same weights w, with the same N batches: 0 where the combined step is the sequence, 1 for a
step that does nothing. Measured along the training of one worker, for several learning rates.

Source of the claim: Maleki et al., MLSys 2021, section 3: Adasum emulates the sequential run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from statistics import median
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tabulate import tabulate

from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers
from models.digits.results import COLORS, label

NUMBERS = (4, 16, 64)
REDUCTIONS = ("adasum", "mean", "sum")
RATES = (0.0125, 0.05, 0.2)
SEEDS = (0, 1, 2, 3, 4)
BATCH = 32
# Of the one worker that trains to where the distance is measured.
STEPS = (0, 30, 100, 300, 1000, 3000)
# Measurements at each of them, with batches of their own.
DRAWS = 3


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All seeds and rates; a run measures all numbers and reductions along one training."""
    for rate in RATES:
        yield from ({"rate": rate, "seed": seed} for seed in SEEDS)


@functools.cache
def _workers(number: int, reduction: str) -> Workers:
    method = Method(reduction, lambda: keras.optimizers.SGD(0.1))
    return Workers(tasks.generated(), number, method)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the distance of each "workers reduction", a list over STEPS."""
    rate, random = settings["rate"], np.random.default_rng(settings["seed"])
    one = _workers(1, "mean")
    one.reset(settings["seed"], rate)
    distances = {f"{n} {reduction}": [] for n in NUMBERS for reduction in REDUCTIONS}
    done = 0
    for steps in STEPS:
        one.train(_batches(random, steps - done, 1))
        done, start = steps, one.weights()
        for number in NUMBERS:
            of_draws = [_distances(start, random, number, rate) for _ in range(DRAWS)]
            for reduction in REDUCTIONS:
                values = [distance[reduction] for distance in of_draws]
                distances[f"{number} {reduction}"].append(float(np.mean(values)))
        one.move_to(start, rate)
    return {"distances": distances}


def _batches(random: np.random.Generator, steps: int, workers: int) -> tf.Tensor:
    examples = len(tasks.generated().train.labels)
    return tf.constant(random.integers(examples, size=(steps, workers, BATCH)).astype(np.int32))


def _distances(
    start: list[np.ndarray], random: np.random.Generator, number: int, rate: float
) -> dict[str, float]:
    batches = _batches(random, number, 1)
    one = _workers(1, "mean")
    one.move_to(start, rate)
    one.train(batches)
    sequence = one.weights()
    distances = {}
    for reduction in REDUCTIONS:
        workers = _workers(number, reduction)
        workers.move_to(start, rate)
        workers.train(tf.reshape(batches, (1, number, BATCH)))
        distances[reduction] = _norm(workers.weights(), sequence) / _norm(sequence, start)
    return distances


def _norm(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum((x - y).astype(np.float64) ** 2) for x, y in zip(a, b))))


def _points(runs: list[Run], number: int, reduction: str, rate: float) -> dict[int, list[float]]:
    group = select(runs, rate=rate)
    of_steps = zip(*(run["distances"][f"{number} {reduction}"] for run in group))
    return dict(zip(STEPS, map(list, of_steps)))


def report(runs: list[Run]) -> str:
    """A line for each number of workers: the least rate and the largest, early, later and late."""
    rows = []
    for number in NUMBERS:
        row: list[Any] = [number]
        for rate in (RATES[0], RATES[-1]):
            for reduction in REDUCTIONS:
                points = _points(runs, number, reduction, rate)
                row.append(" / ".join(f"{median(points[step]):.2f}" for step in (0, 300, 3000)))
        rows.append(row)
    headers = ["workers"] + [
        f"{one}, {rate:g}" for rate in (RATES[0], RATES[-1]) for one in REDUCTIONS
    ]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """Distance over the training, a panel for each number of workers."""
    styles = dict(zip(RATES, (":", "--", "-")))

    def draw(axes, index: int) -> None:
        for reduction in REDUCTIONS:
            for rate, style in styles.items():
                points = _points(runs, NUMBERS[index], reduction, rate)
                axes.plot(
                    [step + 1 for step in points],
                    [median(values) for values in points.values()],
                    style,
                    color=COLORS[reduction],
                    label=f"{label(reduction)}, rate {rate:g}",
                )
        axes.axhline(1, color="0.6", linewidth=1)
        axes.set_xscale("log")
        axes.set_ylim(0, 3)
        axes.set_xlabel("step of one worker before")
        axes.set_ylabel("distance to the sequence")
        if index == 0:
            axes.legend(frameon=False, fontsize="x-small")

    plots.save(path, [f"{number} workers" for number in NUMBERS], draw)


EXPERIMENT = Experiment(
    "sequence", "distance of one combined step from N sequential ones", wanted, run, report, plot
)
