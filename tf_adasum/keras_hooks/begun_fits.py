"""An optimizer hears that `fit` begins: what it kept of one that was cut short may be of no use."""

from __future__ import annotations

from tf_adasum.keras_hooks import calls


def install() -> None:
    """Tells the optimizer after the callbacks' turn, and before the ranks next ask each other."""
    calls.after("on_train_begin", lambda call, _: _tell(call))


def _tell(call: calls.Call) -> None:
    optimizer = getattr(call.model.optimizer, "inner_optimizer", call.model.optimizer)
    begin = getattr(optimizer, "begin_fit", None)
    if begin is not None:
        begin()
