"""The first call of `fit` of a program, which somebody else answers in its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(TensorFlowTrainer, "fit")


def answer(act: Callable[[keras.Model, dict[str, Any]], Any]) -> None:
    """Lets `act` answer the first `fit`; those that follow, also inside of it, are Keras' own.

    Args:
        act: is called with the model and what `fit` was given, by name.
    """
    original = TensorFlowTrainer.fit
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(self, *args, **kwargs):
        TensorFlowTrainer.fit = original
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        return act(given.pop("self"), given)

    TensorFlowTrainer.fit = fit
