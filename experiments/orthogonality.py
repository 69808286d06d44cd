"""Experiment 2: how orthogonal the workers' gradients are, layer by layer, over the training.

|Adasum(g_1, .., g_N)|^2 / (|g_1|^2 + .. + |g_N|^2) of each variable's gradients: 1 / N where they
are parallel and equal, 1 where they are orthogonal.

Source of the claim: Maleki et al., MLSys 2021, section 3: it rises from near 1 / N to near 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import keras
import numpy as np
from tabulate import tabulate

from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.text import text
from experiments.textures import textures
from experiments.worker_optimizers import MakeOptimizer
from experiments.workers import Workers

SEEDS = (0, 1, 2, 3, 4)
# Stretches of the training, each of which has one value in the table and the heat map.
STRETCHES = 20


class Training(NamedTuple):
    """What is trained, and how: by Adasum of gradients.

    Args:
        task: returns it.
        rate: the learning rate.
        epochs: of the training.
        make_optimizer: returns a Keras optimizer.
        batch: examples of each worker and step.
        numbers: of workers.
    """

    task: Callable[[], tasks.Task]
    rate: float
    epochs: int
    make_optimizer: MakeOptimizer = keras.optimizers.SGD
    batch: int = 32
    numbers: tuple[int, ...] = (16, 64)


TRAININGS = {
    "generated": Training(tasks.generated, 0.1, 2),
    "digits": Training(tasks.digits, 0.1, 40),
    "textures": Training(
        textures, 0.2, 8, lambda: keras.optimizers.SGD(0.1, momentum=0.9), 16, (16,)
    ),
    "text": Training(text, 0.004, 2, keras.optimizers.Adam, 8, (16,)),
}


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All seeds."""
    for task, number in _panels():
        training = TRAININGS[task]
        common = {"rate": training.rate, "epochs": training.epochs}
        yield from ({"task": task, "workers": number, **common, "seed": seed} for seed in SEEDS)


def _panels() -> list[tuple[str, int]]:
    return [(task, number) for task in TRAININGS for number in TRAININGS[task].numbers]


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns the orthogonality of [weight][stretch]."""
    training = TRAININGS[settings["task"]]
    task = training.task()
    method = Method("adasum", training.make_optimizer, "gradient", batch=training.batch)
    workers = Workers(task, settings["workers"], method)
    workers.reset(settings["seed"], settings["rate"])
    measured = []
    for _ in range(settings["epochs"]):
        workers.train_epoch()
        measured.append(workers.orthogonality)
    stretches = np.array_split(np.concatenate(measured), STRETCHES)
    means = np.stack([stretch.mean(axis=0) for stretch in stretches], axis=1)
    return {
        "layers": _names(workers.model),
        "orthogonality": np.round(means, 4).tolist(),
        "test": workers.accuracy(task.test),
    }


def _names(model: keras.Model) -> list[str]:
    """Of its weights: number and class of the layer, and their own name there."""
    names = []
    for i, layer in enumerate(_innermost(model)):
        names += [f"{i} {type(layer).__name__} {weight.name}" for weight in layer.trainable_weights]
    return names


def _innermost(model: keras.Model) -> Iterator[keras.Layer]:
    for layer in model.layers:
        yield from _innermost(layer) if isinstance(layer, keras.Model) else (layer,)


def _median_of_seeds(runs: list[Run], task: str, number: int) -> tuple[list[str], np.ndarray]:
    group = select(runs, task=task, workers=number)
    return group[0]["layers"], np.median([run["orthogonality"] for run in group], axis=0)


def report(runs: list[Run]) -> str:
    """First, middle and last twentieth of the training, mean of the layers."""
    rows = []
    for task, number in _panels():
        _, values = _median_of_seeds(runs, task, number)
        of_all = values.mean(axis=0)
        layers = f"{values[:, -1].min():.2f} .. {values[:, -1].max():.2f}"
        ends = [f"{of_all[i]:.2f}" for i in (0, STRETCHES // 2, -1)]
        test = median(run["test"] for run in select(runs, task=task, workers=number))
        rows.append([task, number, f"{1 / number:.3f}", *ends, layers, f"{100 * test:.1f}"])
    headers = ["task", "workers", "parallel", "first", "middle", "last", "last, layers", "test %"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def plot(runs: list[Run], path: str) -> None:
    """A heat map of layer and time for each task and number of workers, and the mean in white."""
    panels = _panels()

    def draw(axes, index: int) -> None:
        layers, values = _median_of_seeds(runs, *panels[index])
        image = axes.imshow(values, aspect="auto", vmin=0, vmax=1, extent=(0, 1, len(layers), 0))
        # From 0 at the bottom to 1 at the top.
        middles = (np.arange(STRETCHES) + 0.5) / STRETCHES
        axes.plot(middles, len(layers) * (1 - values.mean(axis=0)), color="white")
        size = "small" if len(layers) < 12 else "xx-small"
        axes.set_yticks([i + 0.5 for i in range(len(layers))], layers, fontsize=size)
        axes.set_xlabel("share of the training")
        axes.grid(visible=False)
        axes.figure.colorbar(image, ax=axes)

    plots.save(path, [f"{task}, {number} workers" for task, number in panels], draw)


EXPERIMENT = Experiment(
    "orthogonality", "orthogonality per layer over the training", wanted, run, report, plot
)
