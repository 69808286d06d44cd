"""Results of metrics that a step of a program's own returns are those of all replicas.

Keras reads the model's metrics when an epoch ends, where a step returns all of them by their names.
Otherwise it takes what the last step returned, and that each replica has by itself. The sums that a
metric keeps are added over all replicas as it is read there. So a step's results are known by the
metric that they came from, whatever a program calls them, and read when the epoch ends.
"""

from __future__ import annotations

import collections
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(TensorFlowTrainer, "_make_function", "train_step", "test_step")
require_hooks(keras.Metric, "result", "reset_state")


class _Results(threading.local):
    """What metrics have returned while a step runs on this thread, by the value's id.

    Of each the value, which so keeps its id, the metric, and where in its result the value is.
    """

    found: dict[int, tuple[Any, keras.Metric, tuple]] | None = None


# Of a step: where its logs have the result of a metric, and which part of that.
_Places = dict[tuple, tuple[weakref.ref, tuple]]

_results = _Results()
_places: weakref.WeakKeyDictionary[keras.Model, dict[str, _Places]] = weakref.WeakKeyDictionary()


def install() -> None:
    """Notes which metrics a step returns the results of, as it is traced or run."""
    _note_results()
    _note_steps()


def read(model: keras.Model, call: str, logs: dict, communicator: Communicator | None) -> dict:
    """Returns logs of a call's last step, with what is a metric's as all replicas have it.

    Args:
        model: whose step it was.
        call: "fit" or "evaluate".
        logs: as the step returned them.
        communicator: the ranks that come here together; None for a rank without others.
    """
    places, results = _places.get(model, {}).get(call, {}), {}
    flat = keras.tree.flatten_with_path(logs)
    metrics = [places[path][0]() if path in places else None for path, _ in flat]
    is_read = np.array([metric is not None for metric in metrics], np.int32)
    if communicator is not None:
        # A step may return another thing on another rank, and a metric is read by all or by none.
        communicator.allreduce_arrays([is_read], "min", f"which logs of {call} are of metrics")
    values = [value for _, value in flat]
    for i in np.flatnonzero(is_read):
        path, metric = flat[i][0], metrics[i]
        if id(metric) not in results:
            results[id(metric)] = dict(keras.tree.flatten_with_path(metric.result()))
        values[i] = results[id(metric)].get(places[path][1], values[i])
    return keras.tree.pack_sequence_as(logs, values)


def _note_results() -> None:
    """Lets every class of metrics note what `result` returns, once there is a metric of it."""
    original = keras.Metric.__init__

    @functools.wraps(original)
    def make_and_note(self, *args, **kwargs):
        original(self, *args, **kwargs)
        for kind in type(self).__mro__:
            for name, noting in (("result", _noting_result), ("reset_state", _noting_reset)):
                method = vars(kind).get(name)
                if inspect.isfunction(method) and not hasattr(method, "_adasum_notes"):
                    setattr(kind, name, noting(method))
                    vars(kind)[name]._adasum_notes = True

    keras.Metric.__init__ = make_and_note


def _noting_result(result: Callable) -> Callable:
    @functools.wraps(result)
    def result_noted(self, *args, **kwargs):
        value = result(self, *args, **kwargs)
        # What arguments ask for, or is computed of other states, is not what is read later.
        if _results.found is not None and not (args or kwargs or in_stateless_scope()):
            for path, leaf in keras.tree.flatten_with_path(value):
                # Python has one object for all equal small numbers, whoever returns them.
                if tf.is_tensor(leaf) or isinstance(leaf, keras.Variable):
                    _results.found[id(leaf)] = (leaf, self, path)
        return value

    return result_noted


def _noting_reset(reset_state: Callable) -> Callable:
    """What a metric has returned in a step before it begins anew is not what is read later."""

    @functools.wraps(reset_state)
    def reset_noted(self, *args, **kwargs):
        found = _results.found or {}
        for key in [key for key, (_, metric, _) in found.items() if metric is self]:
            del found[key]
        return reset_state(self, *args, **kwargs)

    return reset_noted


def _note_steps() -> None:
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_of_noting_step(self, step_function):
        calls = {"fit": self.train_step, "evaluate": self.test_step}
        call = next((name for name, step in calls.items() if step == step_function), None)
        if call is None or not isinstance(self.distribute_strategy.extended, HookedExtended):
            return original(self, step_function)
        _places.setdefault(self, {})[call] = {}
        # A tf.function's results are no longer the values that metrics returned inside.
        if not isinstance(step_function, tf.types.experimental.GenericFunction):
            step_function = _noting_step(self, call, step_function)
        return original(self, step_function)

    TensorFlowTrainer._make_function = make_of_noting_step


def _noting_step(model: keras.Model, call: str, step: Callable) -> Callable:
    @functools.wraps(step)
    def step_noted(*args, **kwargs):
        outer, _results.found = _results.found, {}
        try:
            logs, found = step(*args, **kwargs), _results.found
        finally:
            _results.found = outer
        _places.setdefault(model, {})[call] = _places_in(logs, found)
        return logs

    return step_noted


def _places_in(logs: Any, found: dict[int, tuple[Any, keras.Metric, tuple]]) -> _Places:
    noted = [
        (path, leaf, *found[id(leaf)][1:])
        for path, leaf in keras.tree.flatten_with_path(logs)
        if id(leaf) in found
    ]
    values = collections.defaultdict(set)
    for _, leaf, metric, part in noted:
        values[id(metric), part].add(id(leaf))
    # Of a metric that has returned one thing and then another, only the last can be read.
    return {
        path: (weakref.ref(metric), part)
        for path, _, metric, part in noted
        if len(values[id(metric), part]) == 1
    }
