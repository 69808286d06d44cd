"""Optimizers hear that `fit` begins: what they kept of one that was cut short may be of no use."""

from __future__ import annotations

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of


def install() -> None:
    """Tells them after the callbacks' turn, and before the ranks next ask each other."""
    calls.after("on_train_begin", lambda call, _: _tell(call))


def _tell(call: calls.Call) -> None:
    for optimizer in wrapped_optimizers_of(call.model):
        optimizer.begin_fit()
