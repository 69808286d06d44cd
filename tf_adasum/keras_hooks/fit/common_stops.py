"""`model.stop_training`, set on one rank, stops all ranks after the same batch.

Keras' loops look at it after each batch and at the end of an epoch. There they see what the ranks
agreed on after the callbacks' turn, so that none stops alone, whoever set it and whenever. The
ranks ask each other at the begin and end of each epoch; after each batch only where a callback
could want to stop there. The same goes for `stop_evaluating` and `stop_predicting`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import keras
from keras.callbacks import (
    BackupAndRestore,
    Callback,
    History,
    ModelCheckpoint,
    ProgbarLogger,
    TensorBoard,
)
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.fit.callback_turns import ranks_with

_log = logging.getLogger("tf_adasum")

# What each method looks at, and what its callbacks' methods are called after.
_STOPS = {"fit": "stop_training", "evaluate": "stop_evaluating", "predict": "stop_predicting"}
_STAGES = {"fit": "train", "evaluate": "test", "predict": "predict"}
# These have methods for batches, and stop nothing. Subclasses may.
_NEVER_STOP = (BackupAndRestore, History, ModelCheckpoint, ProgbarLogger, TensorBoard)

require_hooks(Callback, "on_train_batch_begin", "on_train_batch_end", "on_batch_end")
require_hooks(TensorFlowTrainer, *_STOPS)
for _name, _attribute in _STOPS.items():
    require_reads(TensorFlowTrainer, _name, _attribute)


def install() -> None:
    """Lets the loops of `fit`, `evaluate` and `predict` see what the ranks agreed on."""
    for name, attribute in _STOPS.items():
        setattr(TensorFlowTrainer, attribute, _agreed_in_loops(name, attribute))
        calls.after(f"on_{_STAGES[name]}_begin", _agree_when_to_ask)
        calls.after(f"on_{_STAGES[name]}_batch_end", _agree_after_batch)
    calls.after("on_epoch_begin", _agree)
    calls.after("on_epoch_end", _agree)


def _agreed_in_loops(name: str, attribute: str) -> property:
    """The attribute as before, but for the loop of a call with other ranks."""

    def get(self):
        call = calls.current()
        is_loop = call is not None and call.name == name and call.model is self
        if is_loop and not call.in_turn and call.communicator is not None:
            # A number: where an attribute is the very object that is assigned, as the loop's False
            # at the begin would be, TensorFlow leaves out the assignment.
            return int(call.stops)
        if attribute not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")
        return self.__dict__[attribute]

    def put(self, value):
        self.__dict__[attribute] = value

    return property(get, put)


def _agree_when_to_ask(call: calls.Call, callbacks: keras.callbacks.CallbackList) -> None:
    stage = _STAGES[call.name]
    call.asks_each_batch = bool(ranks_with(call, _may_stop(callbacks.callbacks, stage)))
    _agree(call, callbacks)


def _agree_after_batch(call: calls.Call, callbacks: keras.callbacks.CallbackList) -> None:
    if call.asks_each_batch:
        _agree(call, callbacks)


def _agree(call: calls.Call, callbacks: keras.callbacks.CallbackList) -> None:
    del callbacks
    attribute = _STOPS[call.name]
    ranks = ranks_with(call, bool(call.model.__dict__.get(attribute)))
    call.stops = bool(ranks)
    if not ranks:
        return
    call.model.__dict__[attribute] = True
    if call.communicator.rank == 0 and len(ranks) < call.communicator.size:
        said = call.communicator.in_words(*ranks)
        _log.warning("%s ends here on all ranks: %s set %s.", call.name, said, attribute)


def _may_stop(callbacks: Iterable[Callback], stage: str) -> bool:
    names = [f"on_{stage}_batch_begin", f"on_{stage}_batch_end"]
    if stage == "train":
        names += ["on_batch_begin", "on_batch_end"]
    return any(
        getattr(getattr(callback, name), "__func__", None) is not getattr(Callback, name)
        for callback in callbacks
        if type(callback) not in _NEVER_STOP and not vars(type(callback)).get("stops_nothing")
        for name in names
    )
