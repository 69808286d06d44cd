"""A wrapped optimizer that takes a step of `fit` must be held by the model whose step it is.

What a model holds says how its losses come. A variable that a `train_step` closes over, or a global
one, is not found, and nobody could say whether its gradients are divided by the number of replicas.
"""

from __future__ import annotations

import threading

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.around_steps import run_steps_by
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of


class _Step(threading.local):
    """The model whose step this replica's thread runs, or traces."""

    model: keras.Model | None = None


_step = _Step()


def install() -> None:
    """Lets steps of Keras say whose they are."""
    run_steps_by(_of_model)


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
        "a list, dict or set there"
    )
    advice = "Set model.my_optimizer = optimizer, or pass divided_loss to wrap."
    raise RuntimeError(refusal(expected, f"a step of {model.name!r}, which has none", advice))


def _of_model(model, step_function, data):
    before = _step.model
    _step.model = model
    try:
        return step_function(data)
    finally:
        _step.model = before
