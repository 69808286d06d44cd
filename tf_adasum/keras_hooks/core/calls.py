"""The calls of `fit`, `evaluate` and `predict` that are under way, and their callbacks' turns.

What other hooks do when callbacks have had their turn, they register with `after`, and with
`before` what they do ahead of it; with `at_begin` and `at_begin_in_turn` what they do before
anything else of a call.
Only inside of these calls: a `CallbackList` of somebody's own loop may exist on one rank alone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import peers_of

_CALLS = ("evaluate", "fit", "predict")
_STAGES = ("train", "test", "predict")
_TURNS = (
    "on_epoch_begin",
    "on_epoch_end",
    *(f"on_{stage}_{end}" for stage in _STAGES for end in ("begin", "end")),
    *(f"on_{stage}_batch_{end}" for stage in _STAGES for end in ("begin", "end")),
)

require_hooks(keras.callbacks.CallbackList, *_TURNS)
require_hooks(TensorFlowTrainer, "distribute_strategy", *_CALLS)


class Call:
    """A call of `fit`, `evaluate` or `predict` that is under way.

    Attributes:
        name: of the method.
        model: whose method it is.
        communicator: the ranks that make the call together; None for a rank without others.
        initial_epoch: what `fit` was asked to begin with.
        in_turn: whether callbacks have their turn.
        restored: whether a callback has restored the model on this rank.
        shares_data: whether each rank computes on its own part of the data; set in `predict`.
        stops: whether a rank wants to stop, as all ranks know.
        callbacks: the outermost `CallbackList` that has had a turn; None before.
        at_end: what is done when the call ends, also by an exception.
        has_data: whether the iterator over the data to train on was made.
        first_iterator: the epoch iterator that was made first, over the call's own data; held by
            whoever made it.
        asks_each_batch: whether a rank may want to stop in the midst of an epoch.
    """

    def __init__(self, name: str, model: keras.Model, initial_epoch: int):
        self.name = name
        self.model = model
        self.communicator = communicator_of(model)
        self.initial_epoch = initial_epoch
        self.in_turn = False
        self.restored = False
        self.shares_data = True
        self.stops = False
        self.has_data = False
        self.first_iterator: weakref.ref | None = None
        self.asks_each_batch = False
        self.callbacks: keras.callbacks.CallbackList | None = None
        self.at_end = contextlib.ExitStack()


class _Calls(threading.local):
    """The calls of this thread, the innermost last: `fit` calls `evaluate`.

    `older` is the `CallbackList` that had a turn last in a call that is older than the hooks.
    """

    def __init__(self):
        self.stack: list[Call] = []
        self.older: weakref.ref[keras.callbacks.CallbackList] | None = None


_calls = _Calls()
# The call that a thread is in with the ranks of a group; of all threads.
_outermost: dict[Communicator, Call] = {}
_at_begin: list[Callable[[Call, dict[str, Any]], None]] = []
_at_begin_in_turn: list[Callable[[Call, Call], None]] = []
_before: dict[str, list[Callable[[Call], None]]] = defaultdict(list)
_after: dict[str, list[Callable[[Call, keras.callbacks.CallbackList], None]]] = defaultdict(list)


def current() -> Call | None:
    """Returns the innermost call of this thread."""
    return _calls.stack[-1] if _calls.stack else None


def callbacks() -> list[keras.callbacks.Callback]:
    """Returns those of the innermost call of this thread, when one of them has its turn."""
    call = current()
    listed = call.callbacks if call is not None else _calls.older and _calls.older()
    return [] if listed is None else listed.callbacks


def in_turn() -> bool:
    """Whether this thread runs a callback of `fit`, `evaluate` or `predict`."""
    return bool(_calls.stack) and _calls.stack[-1].in_turn


def communicator_in_turn() -> Communicator | None:
    """Returns the ranks whose callback this thread runs; None if it runs none, or has no others."""
    return _calls.stack[-1].communicator if in_turn() else None


def communicator_of(model: keras.Model) -> Communicator | None:
    """Returns the ranks that train the model together; None if this one has no others."""
    return peers_of(model.distribute_strategy)


def at_begin(act: Callable[[Call, dict[str, Any]], None]) -> None:
    """Lets `act` see what a call with other ranks was given, by name, before all else.

    Only of calls that the program makes: `fit` validates where all ranks do.
    """
    _at_begin.append(act)


def at_begin_in_turn(act: Callable[[Call, Call], None]) -> None:
    """Lets `act` see the call whose callbacks make another one with the same ranks, and that."""
    _at_begin_in_turn.append(act)


def before(turn: str, act: Callable[[Call], None]) -> None:
    """Lets `act` come before all callbacks of a call have that turn, also without other ranks."""
    _before[turn].append(act)


def after(turn: str, act: Callable[[Call, keras.callbacks.CallbackList], None]) -> None:
    """Lets `act` follow when all callbacks of a call with other ranks have had that turn."""
    _after[turn].append(act)


def install() -> None:
    """Lets `fit`, `evaluate`, `predict` and `CallbackList` say where they are."""
    for name in _CALLS:
        _mark_call(name)
    for name in _TURNS:
        _mark_turn(name)


def _mark_call(name: str) -> None:
    original = getattr(TensorFlowTrainer, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def marked(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        call = Call(name, self, given.get("initial_epoch", 0))
        outer = current()
        with _only_thread(call):
            _calls.stack.append(call)
            try:
                with call.at_end:
                    if call.communicator is not None:
                        _begin(call, outer, given)
                    return original(self, *args, **kwargs)
            finally:
                _calls.stack.pop()

    setattr(TensorFlowTrainer, name, marked)


def _begin(call: Call, outer: Call | None, given: dict[str, Any]) -> None:
    if outer is None:
        for act in _at_begin:
            act(call, given)
    elif outer.in_turn and outer.communicator is call.communicator:
        for act in _at_begin_in_turn:
            act(outer, call)


@contextlib.contextmanager
def _only_thread(call: Call):
    """Ranks meet by what they do and not by the model: those of two threads would mix."""
    if call.communicator is None or _calls.stack:
        yield
        return
    other = _outermost.setdefault(call.communicator, call)
    if other is not call:
        raise RuntimeError(
            refusal(
                "one fit, evaluate or predict of a group of ranks at a time",
                f"{call.name} of {call.model.name!r} in a thread, while another is in {other.name} "
                f"of {other.model.name!r}",
                "Make such calls one after the other, or give each strategy a communicator of its "
                "own by split(); predict_on_batch and model(x) compute alone, also in a generator.",
            )
        )
    try:
        yield
    finally:
        del _outermost[call.communicator]


def _mark_turn(name: str) -> None:
    original = getattr(keras.callbacks.CallbackList, name)

    @functools.wraps(original)
    def marked(self, *args, **kwargs):
        call = current()
        if call is None:
            _calls.older = weakref.ref(self)
        # Callbacks may hold lists of their own: the turn is that of the outermost.
        if call is None or call.in_turn:
            return original(self, *args, **kwargs)
        call.callbacks = self
        for act in _before[name]:
            act(call)
        with _turn_of(call):
            original(self, *args, **kwargs)
        if call.communicator is not None:
            for act in _after[name]:
                act(call, self)
        return None

    setattr(keras.callbacks.CallbackList, name, marked)


@contextlib.contextmanager
def _turn_of(call: Call):
    call.in_turn = True
    try:
        yield
    finally:
        call.in_turn = False
