"""Every optimizer that Keras has."""

from __future__ import annotations

import functools

import keras

from tests.keras.registry import row
from tests.keras.run import fitted
from tests.training.replicas import small_model

optimizers = functools.partial(row, "Optimizers")
# What each gets; delta mode refuses ScheduleFreeAdamW, in a sentence (//tests/training).
SETTINGS = {
    "Adadelta": {"learning_rate": 1.0},
    "Adafactor": {"learning_rate": 0.05},
    "Adagrad": {"learning_rate": 0.05},
    "Adam": {"learning_rate": 0.01},
    "AdamW": {"learning_rate": 0.01},
    "Adamax": {"learning_rate": 0.01},
    "Ftrl": {"learning_rate": 0.05},
    "Lamb": {"learning_rate": 0.01},
    "Lion": {"learning_rate": 0.003},
    "Muon": {"learning_rate": 0.01},
    "Nadam": {"learning_rate": 0.01},
    "RMSprop": {"learning_rate": 0.01, "momentum": 0.5, "centered": True},
    "SGD": {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True},
}
# `make test` runs these: Nadam and Muon do more than update each variable by itself.
QUICK = {"Muon", "Nadam"}
# Keras lists these too: rows of their own below and in precision.py, and what is no optimizer.
OTHERS = {"LossScaleOptimizer", "MultiOptimizer", "ScheduleFreeAdamW", "Optimizer", "OptimizerMap"}


def _add(name, settings):
    @optimizers(name, full=name not in QUICK)
    def train(run):
        return fitted(run, lambda: getattr(keras.optimizers, name)(**settings))


for _name, _settings in SETTINGS.items():
    _add(_name, _settings)


@optimizers("ScheduleFreeAdamW", note="mode='gradient'; mode='delta' is refused in a sentence")
def schedule_free(run):
    with run.scope():
        model = small_model()
        optimizer = run.wrap(keras.optimizers.ScheduleFreeAdamW(0.01), mode="gradient")
        # On one device Keras 3.15 builds it in the traced step, where its first z is lost.
        optimizer.build(model.trainable_variables)
        model.compile(optimizer, "mse")
    return run.result(model, run.fit(model, *run.examples()))


@optimizers("MultiOptimizer", note="wrap the optimizers in it")
def several(run):
    with run.scope():
        model = small_model()
        of_first = run.wrap(keras.optimizers.Adam(0.01))
        others = run.wrap(keras.optimizers.SGD(0.05))
        by_path = keras.optimizers.OptimizerMap(others, {".*first.*": of_first})
        model.compile(keras.optimizers.MultiOptimizer(by_path), "mse")
    return run.result(model, run.fit(model, *run.examples()))
