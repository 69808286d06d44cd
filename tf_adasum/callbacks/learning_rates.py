"""The learning rates of a model's optimizers, which callbacks set anew when an epoch begins."""

from __future__ import annotations

import keras

from tf_adasum.distribute.own_variables import learning_rate_of
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of


def rates_of(model: keras.Model) -> list[float]:
    """Returns those that are no schedules, which nobody sets."""
    return [float(rate.numpy()) for rate in _rates(model)]


def set_rates(model: keras.Model, rates: list[float]) -> None:
    """Sets them to what `rates_of` returned."""
    for rate, value in zip(_rates(model), rates):
        rate.assign(value)


def _rates(model: keras.Model) -> list[keras.Variable]:
    rates = [learning_rate_of(each) for each in optimizers_of(model)]
    return [rate for rate in rates if isinstance(rate, keras.Variable)]
