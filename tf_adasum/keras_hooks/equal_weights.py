"""`fit` and `evaluate` begin, and `fit` ends, with equal weights on all ranks.

The ranks compare after the callbacks' turn: BackupAndRestore loads weights when training begins,
EarlyStopping sets them when it ends. Only inside `fit` and `evaluate`: a `CallbackList` of
somebody's own loop may exist on one rank alone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(keras.callbacks.CallbackList, "on_test_begin", "on_train_begin", "on_train_end")
require_hooks(TensorFlowTrainer, "distribute_strategy", "evaluate", "fit")


class _Call:
    """A call of `fit` or `evaluate` that is under way."""

    def __init__(self, model: keras.Model, initial_epoch: int):
        self.model = model
        self.initial_epoch = initial_epoch
        self.has_begun = False


class _Calls(threading.local):
    """The calls of this thread, the innermost last: `fit` calls `evaluate`."""

    def __init__(self):
        self.stack: list[_Call] = []

    @contextlib.contextmanager
    def of(self, model, initial_epoch):
        self.stack.append(_Call(model, initial_epoch))
        try:
            yield
        finally:
            self.stack.pop()


def install() -> None:
    """Lets `fit` and `evaluate` compare the weights of ranks."""
    calls = _Calls()
    for name in ("fit", "evaluate"):
        _mark(name, calls)
    _compare_after("on_train_begin", calls, "fit begins")
    _compare_after("on_test_begin", calls, "evaluate begins")
    _compare_after("on_train_end", calls, "fit ends")


def _mark(name: str, calls: _Calls) -> None:
    original = getattr(TensorFlowTrainer, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def marked(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        with calls.of(self, given.get("initial_epoch", 0)):
            return original(self, *args, **kwargs)

    setattr(TensorFlowTrainer, name, marked)


def _compare_after(name: str, calls: _Calls, when: str) -> None:
    original = getattr(keras.callbacks.CallbackList, name)
    is_end = name == "on_train_end"

    @functools.wraps(original)
    def then_compare(self, logs=None):
        original(self, logs)
        # Callbacks may hold lists of their own: the outermost list of a call ends its turn.
        if calls.stack and calls.stack[-1].has_begun == is_end:
            call = calls.stack[-1]
            call.has_begun = not is_end
            _compare(call, when)

    setattr(keras.callbacks.CallbackList, name, then_compare)


def _compare(call: _Call, when: str) -> None:
    model = call.model
    strategy = model.distribute_strategy
    if not isinstance(strategy.extended, HookedExtended) or strategy.extended.communicator.size < 2:
        return
    epoch = model._initial_epoch or call.initial_epoch
    agreed = strategy.equal_weights.check(model, when, epoch, call.initial_epoch)
    if agreed != epoch:
        model._initial_epoch = agreed
