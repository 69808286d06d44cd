"""Results of metrics that a step of a program's own returns are those of all replicas.

Keras reads the model's metrics when an epoch ends, where a step returns all of them by their names.
Otherwise it takes what the last step returned, and that each replica has by itself. The sums that a
metric keeps are added over all replicas as it is read there. So a step's results are known by the
metric that they came from, whatever a program calls them, and read when the epoch ends.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(TensorFlowTrainer, "_make_function", "test_step")
require_hooks(keras.Metric, "result")


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


def read(model: keras.Model, call: str, logs: dict) -> dict:
    """Returns logs of a call's last step, with what is a metric's as all replicas have it.

    All ranks that the call has must come here.

    Args:
        model: whose step it was.
        call: "fit" or "evaluate".
        logs: as the step returned them.
    """
    places, results = _places.get(model, {}).get(call, {}), {}

    def value_of(path: tuple, own: Any) -> Any:
        metric = places[path][0]() if path in places else None
        if metric is None:
            return own
        if metric not in results:
            results[metric] = dict(keras.tree.flatten_with_path(metric.result()))
        return results[metric].get(places[path][1], own)

    values = [value_of(path, own) for path, own in keras.tree.flatten_with_path(logs)]
    return keras.tree.pack_sequence_as(logs, values)


def _note_results() -> None:
    """Lets every class of metrics note what `result` returns, once there is a metric of it."""
    original = keras.Metric.__init__

    @functools.wraps(original)
    def make_and_note(self, *args, **kwargs):
        original(self, *args, **kwargs)
        for kind in type(self).__mro__:
            result = vars(kind).get("result")
            if inspect.isfunction(result) and not hasattr(result, "_adasum_notes"):
                kind.result = _noting_result(result)

    keras.Metric.__init__ = make_and_note


def _noting_result(result: Callable) -> Callable:
    @functools.wraps(result)
    def result_noted(self, *args, **kwargs):
        value = result(self, *args, **kwargs)
        if _results.found is not None:
            for path, leaf in keras.tree.flatten_with_path(value):
                # Python has one object for all equal small numbers, whoever returns them.
                if leaf is not None and not isinstance(leaf, int):
                    _results.found[id(leaf)] = (leaf, self, path)
        return value

    result_noted._adasum_notes = True
    return result_noted


def _note_steps() -> None:
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_of_noting_step(self, step_function):
        # A tf.function's results are no longer the values that metrics returned inside.
        is_traced = isinstance(step_function, tf.types.experimental.GenericFunction)
        if isinstance(self.distribute_strategy.extended, HookedExtended) and not is_traced:
            step_function = _noting_step(self, step_function)
        return original(self, step_function)

    TensorFlowTrainer._make_function = make_of_noting_step


def _noting_step(model: keras.Model, step: Callable) -> Callable:
    call = "evaluate" if step == model.test_step else "fit"

    @functools.wraps(step)
    def step_noted(*args, **kwargs):
        outer, _results.found = _results.found, {}
        try:
            logs, found = step(*args, **kwargs), _results.found
        finally:
            _results.found = outer
        _places.setdefault(model, {})[call] = {
            path: (weakref.ref(found[id(leaf)][1]), found[id(leaf)][2])
            for path, leaf in keras.tree.flatten_with_path(logs)
            if id(leaf) in found
        }
        return logs

    return step_noted
