"""The values that a training's variables have, put back when all is measured."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from tf_adasum.distribute.own_variables import (
    metric_variables,
    residual_variables,
    state_variables,
)
from tf_adasum.distribute.variables import local_copies, native_variable
from tf_adasum.keras_hooks.randomness import global_seeds

# What `fit` and `evaluate` leave on a model.
_ATTRIBUTES = ("history", "stop_training", "train_function", "test_function", "_initial_epoch")


class KeptState(keras.callbacks.Callback):
    """Notes weights, optimizers, metrics and random states of this rank, once the model is built.

    As a callback of the first `fit` it does so before the first step; `put_back` undoes all later
    ones. What `fit` has built stays built.
    """

    def __init__(self, model: keras.Model):
        super().__init__()
        self._owner = model
        self._attributes = {name: getattr(model, name, None) for name in _ATTRIBUTES}
        self._values: list[tuple[tf.Variable, np.ndarray]] | None = None

    @override
    def on_train_begin(self, logs=None):
        if self._values is not None:
            return
        kinds = (state_variables, metric_variables, residual_variables)
        described = [each for kind in kinds for each in kind(self._owner)]
        variables = [each.variable for each in described]
        seeds = global_seeds.existing()
        if seeds is not None:
            variables.append(native_variable(seeds))
        copies = [copy for variable in variables for copy in local_copies(variable)]
        self._values = [(copy, copy.numpy()) for copy in copies]

    def put_values_back(self) -> None:
        """Assigns what was noted, on this rank alone."""
        for variable, value in self._values or []:
            variable.assign(value)

    def put_back(self) -> None:
        """Also puts back what `fit` sets on a model."""
        self.put_values_back()
        for name, value in self._attributes.items():
            setattr(self._owner, name, value)
