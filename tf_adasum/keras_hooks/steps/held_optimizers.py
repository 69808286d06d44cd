"""A wrapped optimizer that takes a step of `fit` must be held by the model whose step it is.

What a model holds says how its losses come. A variable that a `train_step` closes over, or a global
one, is not found, and nobody could say whether its gradients are divided by the number of replicas.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of

require_hooks(TensorFlowTrainer, "_make_function")


class _Step(threading.local):
    """The model whose step this replica's thread runs, or traces."""

    model: keras.Model | None = None


_step = _Step()


def install() -> None:
    """Lets steps of Keras say whose they are."""
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_function(self, step_function):
        def step(data):
            with _step_of(self):
                return step_function(data)

        return original(self, step)

    TensorFlowTrainer._make_function = make_function


def check_held(optimizer: keras.optimizers.Optimizer) -> None:
    """Raises RuntimeError in a step of Keras of a model that does not hold the wrapped optimizer.

    Args:
        optimizer: that is applied, with peers.
    """
    model = _step.model
    if model is None or any(each is optimizer for each in wrapped_optimizers_of(model)):
        return
    expected = (
        f"the wrapped optimizer {optimizer.name!r} in an attribute of the model or a layer, or in "
        "a list or dict there"
    )
    advice = "Set model.my_optimizer = optimizer, or pass divided_loss to wrap."
    raise RuntimeError(refusal(expected, f"a step of {model.name!r}, which has none", advice))


@contextlib.contextmanager
def _step_of(model: keras.Model) -> Iterator[None]:
    before = _step.model
    _step.model = model
    try:
        yield
    finally:
        _step.model = before
