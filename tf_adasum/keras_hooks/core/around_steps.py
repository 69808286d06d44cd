"""What hooks put around the steps of Keras: of `fit`, `evaluate`, `predict`, and on one batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(TensorFlowTrainer, "_make_function")

StepFunction = Callable[[Any], Any]


def run_steps_by(run: Callable[[keras.Model, StepFunction, Any], Any]) -> None:
    """Lets `run(model, step, data)` take the place of each `step(data)` of a model.

    What was put around first is outermost, and gets the data first. A hook to which it matters
    which function is made, or whose step is a `tf.function`, wraps `_make_function` by itself.

    Args:
        run: calls the step once, in each replica, with the replica's data or what stands for them,
            and returns what the step returns.
    """
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_function(self, step_function):
        def step(data):
            return run(self, step_function, data)

        return original(self, step)

    TensorFlowTrainer._make_function = make_function
