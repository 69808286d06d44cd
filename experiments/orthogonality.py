"""Experiment 2: how orthogonal the workers' gradients are, layer by layer, over the training.

|Adasum(g_1, .., g_N)|^2 / (|g_1|^2 + .. + |g_N|^2) of each variable's gradients: 1 / N where they
are parallel and equal, 1 where they are orthogonal.

Source of the claim: Maleki et al., MLSys 2021, section 3: it rises from near 1 / N to near 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import keras
import numpy as np
from tabulate import tabulate

from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.workers import Method, Workers

NUMBERS = (16, 64)
SEEDS = (0, 1, 2, 3, 4)
# Task, learning rate, epochs.
TRAININGS = (("generated", 0.1, 2), ("digits", 0.1, 40))
# Stretches of the training, each of which has one value in the table and the heat map.
STRETCHES = 20


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All seeds."""
    for task, rate, epochs in TRAININGS:
        for number in NUMBERS:
            common = {"task": task, "workers": number, "rate": rate, "epochs": epochs}
            yield from ({**common, "seed": seed} for seed in SEEDS)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains by Adasum of gradients; returns the orthogonality of [layer][stretch]."""
    task = tasks.TASKS[settings["task"]]()
    method = Method("adasum", lambda: keras.optimizers.SGD(0.1), "gradient")
    workers = Workers(task, settings["workers"], method)
    workers.reset(settings["seed"], settings["rate"])
    measured = []
    for _ in range(settings["epochs"]):
        workers.train_epoch()
        measured.append(workers.orthogonality)
    stretches = np.array_split(np.concatenate(measured), STRETCHES)
    means = np.stack([stretch.mean(axis=0) for stretch in stretches], axis=1)
    return {
        "layers": [
            f"{i} {type(layer).__name__} {weight.name}"
            for i, layer in enumerate(workers.model.layers)
            for weight in layer.trainable_weights
        ],
        "orthogonality": np.round(means, 4).tolist(),
        "test": workers.accuracy(task.test),
    }


def _median_of_seeds(runs: list[Run], task: str, number: int) -> tuple[list[str], np.ndarray]:
    group = select(runs, task=task, workers=number)
    return group[0]["layers"], np.median([run["orthogonality"] for run in group], axis=0)


def report(runs: list[Run]) -> str:
    """First, middle and last twentieth of the training, mean of the layers."""
    rows = []
    for task, _, _ in TRAININGS:
        for number in NUMBERS:
            _, values = _median_of_seeds(runs, task, number)
            of_all = values.mean(axis=0)
            layers = f"{values[:, -1].min():.2f} .. {values[:, -1].max():.2f}"
            ends = [f"{of_all[i]:.2f}" for i in (0, STRETCHES // 2, -1)]
            test = median(run["test"] for run in select(runs, task=task, workers=number))
            rows.append([task, number, f"{1 / number:.3f}", *ends, layers, f"{100 * test:.1f}"])
    headers = ["task", "workers", "parallel", "first", "middle", "last", "last, layers", "test %"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """A heat map of layer and time for each task and number of workers."""
    panels = [(task, number) for task, _, _ in TRAININGS for number in NUMBERS]

    def draw(axes, index: int) -> None:
        layers, values = _median_of_seeds(runs, *panels[index])
        image = axes.imshow(values, aspect="auto", vmin=0, vmax=1, extent=(0, 1, len(layers), 0))
        axes.set_yticks([i + 0.5 for i in range(len(layers))], layers, fontsize="small")
        axes.set_xlabel("share of the training")
        axes.grid(visible=False)
        axes.figure.colorbar(image, ax=axes)

    plots.save(path, [f"{task}, {number} workers" for task, number in panels], draw)


EXPERIMENT = Experiment(
    "orthogonality", "orthogonality per layer over the training", wanted, run, report, plot
)
