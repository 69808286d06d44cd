"""Optimizers hear that `fit` ends, before the callbacks' turn: replicas that differ meet.

Keras lets the one that a model is compiled with finish the weights. Those that the model keeps in
attributes may be within a round of local steps just as well.
"""

from __future__ import annotations

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of


def install() -> None:
    """Tells them before callbacks look at the weights, or set them."""
    calls.before("on_train_end", _tell)


def _tell(call: calls.Call) -> None:
    for optimizer in wrapped_optimizers_of(call.model):
        optimizer.synchronize()
