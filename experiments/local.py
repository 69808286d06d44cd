"""Experiment 7: less exchange between hosts, and whether the training notices.

By `fit` on 8 replicas: a reduction after every step, every 4th and every 16th (`steps_per_sync`),
and 8 micro-batches of one replica in the place of replicas (`accumulate`). By the experiments' own
workers, 8 on each of 4 hosts: what a host does before Adasum reduces across hosts
(`local_reduction`).
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

import tf_adasum as adasum
from experiments import plots, tasks
from experiments.experiment import Experiment, Run, select
from experiments.method import Method
from experiments.workers import Workers

# One worker's best (experiment `scaling`).
RATE = 0.2
BATCH, EPOCHS, CURVE_POINTS = 32, 2, 8
REPLICAS, HOSTS, WORKERS_PER_HOST = 8, 4, 8
SEEDS = (0, 1, 2, 3, 4)

FIT = {
    "8 replicas": {"reduction": "adasum"},
    "8 micro-batches": {"reduction": "adasum", "accumulate": 8},
    "8 replicas, every 4 steps": {"reduction": "adasum", "steps_per_sync": 4},
    "8 replicas, every 16 steps": {"reduction": "adasum", "steps_per_sync": 16},
    "8 replicas, mean": {"reduction": "mean"},
    "8 replicas, mean, every 4 steps": {"reduction": "mean", "steps_per_sync": 4},
    "8 replicas, mean, every 16 steps": {"reduction": "mean", "steps_per_sync": 16},
}
ON_HOSTS = {
    "4 hosts x 8, adasum in each": "adasum",
    "4 hosts x 8, sum in each": "sum",
    "4 hosts x 8, mean in each": "mean",
}
# The arms with which the others of their kind are compared.
COMPARED_WITH = {
    **dict.fromkeys(FIT, "8 replicas"),
    **dict.fromkeys(ON_HOSTS, "4 hosts x 8, adasum in each"),
}


def make_devices() -> None:
    """Makes the replicas' devices; before anything starts TensorFlow's runtime."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS
    )


def wanted(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """All arms and seeds."""
    del runs
    for arm in (*FIT, *ON_HOSTS):
        yield from ({"arm": arm, "seed": seed} for seed in SEEDS)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Trains; returns the validation accuracy along the way, and the test accuracy at the end."""
    arm, seed = settings["arm"], settings["seed"]
    if arm in ON_HOSTS:
        return _run_hosts(ON_HOSTS[arm], seed)
    return _run_fit(seed, **FIT[arm])


def _run_fit(
    seed: int, reduction: str, accumulate: int = 1, steps_per_sync: int = 1
) -> dict[str, Any]:
    task = tasks.generated()
    keras.utils.set_random_seed(seed)
    replicas = REPLICAS // accumulate
    devices = [f"CPU:{index}" for index in range(replicas)]
    strategy = adasum.AdasumStrategy(devices, [(".*", reduction)])
    with strategy.scope():
        model = task.build()
        optimizer = adasum.wrap(
            keras.optimizers.SGD(RATE), accumulate=accumulate, steps_per_sync=steps_per_sync
        )
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batch = BATCH * replicas
    examples = tf.data.Dataset.from_tensor_slices(tuple(task.train))
    batches = examples.shuffle(len(task.train.labels)).batch(batch, drop_remainder=True)
    curve = []

    def measure(*_) -> None:
        logits = model(task.validation.inputs, training=False).numpy()
        curve.append(float(np.mean(logits.argmax(1) == task.validation.labels)))

    # Parts of the same length for all arms: whole rounds of 16 steps of 8 replicas.
    steps = EPOCHS * len(task.train.labels) // (REPLICAS * BATCH * CURVE_POINTS * 16) * 16
    model.fit(
        batches.repeat(),
        steps_per_epoch=steps * accumulate,
        epochs=CURVE_POINTS,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=measure)],
        shuffle=False,
        verbose=0,
    )
    logits = model(task.test.inputs, training=False).numpy()
    return {"validation": curve, "test": float(np.mean(logits.argmax(1) == task.test.labels))}


@functools.lru_cache(maxsize=1)
def _workers(local_reduction: str) -> Workers:
    method = Method(
        "adasum", lambda: keras.optimizers.SGD(0.1), hosts=HOSTS, local_reduction=local_reduction
    )
    return Workers(tasks.generated(), HOSTS * WORKERS_PER_HOST, method)


def _run_hosts(local_reduction: str, seed: int) -> dict[str, Any]:
    task, workers = tasks.generated(), _workers(local_reduction)
    workers.reset(seed, RATE)
    number = HOSTS * WORKERS_PER_HOST
    random = np.random.default_rng(1000 + seed)
    orders = [random.permutation(len(task.train.labels)) for _ in range(EPOCHS)]
    steps = EPOCHS * len(task.train.labels) // (number * BATCH * CURVE_POINTS)
    drawn = np.concatenate(orders)[: CURVE_POINTS * steps * number * BATCH].astype(np.int32)
    curve = []
    for part in drawn.reshape(CURVE_POINTS, steps, number, BATCH):
        workers.train(part)
        curve.append(workers.accuracy(task.validation))
    return {"validation": curve, "test": workers.accuracy(task.test)}


def _medians(runs: list[Run], arm: str) -> list[float]:
    return [median(point) for point in zip(*(run["validation"] for run in select(runs, arm=arm)))]


def report(runs: list[Run]) -> str:
    """A line for each arm: the curve, the test accuracy, and how far from the compared arm."""
    rows = []
    for arm, other in COMPARED_WITH.items():
        curve = _medians(runs, arm)
        rows.append(
            [
                arm,
                *(f"{100 * curve[at]:.1f}" for at in (0, 1, 3, 7)),
                plots.percent([run["test"] for run in select(runs, arm=arm)]),
                "" if arm == other else _points_apart(runs, arm, other),
            ]
        )
    headers = ["arm", "1/4 epoch", "1/2", "1", "2", "test %", "apart, points (the seeds' spread)"]
    return tabulate(rows, headers, "github", disable_numparse=True)


def _points_apart(runs: list[Run], arm: str, other: str) -> str:
    """The largest distance of the medians along the curve, beside the other's own seeds there."""
    seeds = list(zip(*(run["validation"] for run in select(runs, arm=other))))
    apart = [abs(a - b) for a, b in zip(_medians(runs, arm), _medians(runs, other))]
    at = int(np.argmax(apart))
    return f"{100 * apart[at]:.1f} ({100 * (max(seeds[at]) - min(seeds[at])):.1f})"


def plot(runs: list[Run], path: str) -> None:
    """Validation error over the epochs, a line for each arm."""
    panels = [list(FIT), list(ON_HOSTS)]

    def draw(axes, index: int) -> None:
        epochs = [EPOCHS * (point + 1) / CURVE_POINTS for point in range(CURVE_POINTS)]
        for arm in panels[index]:
            errors = [1 - value for value in _medians(runs, arm)]
            axes.plot(epochs, errors, "--" if "mean" in arm else "-", marker="o", ms=3, label=arm)
        axes.set_yscale("log")
        axes.set_xlabel("epochs")
        axes.set_ylabel("validation error")
        axes.legend(frameon=False, fontsize="small")

    plots.save(path, ["Local steps and micro-batches", "Local reductions"], draw)


EXPERIMENT = Experiment(
    "local", "local steps, micro-batches and local reductions", wanted, run, report, plot
)
