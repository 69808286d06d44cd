"""Replicas begin a step when its data are there, and not at all where there are none.

In a graph what needs no data, as the count of iterations and the seeds of random layers, is ready
at once. Where data of unknown length end, TensorFlow ends the step by an error, and until then some
replicas have counted it, and others have not: those would go on with unlike learning rates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf


def behind(args: Sequence[Any], kwargs: Mapping[str, Any]) -> contextlib.AbstractContextManager:
    """Returns a context in which all operations of a graph wait for the tensors in arguments."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    graph = tf.compat.v1.get_default_graph()
    values = tf.nest.flatten((args, kwargs), expand_composites=True)
    return tf.control_dependencies([each for each in values if _is_of(graph, each)])


def begun_behind(function: Callable) -> Callable:
    """Returns `function`, called on another thread, with all operations behind its arguments.

    What a thread has entered counts for that thread alone, so that `behind` must be inside.
    """
    if isinstance(function, tf.types.experimental.GenericFunction):
        return function  # one operation, which the calling thread makes

    @tf.autograph.experimental.do_not_convert  # strategy.run has converted `function`
    def waiting(*args, **kwargs):
        with behind(args, kwargs):
            return function(*args, **kwargs)

    return waiting


def _is_of(graph: tf.Graph, value: Any) -> bool:
    return tf.is_symbolic_tensor(value) and value.graph is graph
