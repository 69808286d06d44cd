"""Replicas whose batch has no row in the step under way, and what of theirs does not count."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import zeros_if as op
from tf_adasum.keras_hooks.core import summaries
from tf_adasum.keras_hooks.core.replicas_flag import ReplicasFlag


class IdleReplicas:
    """Which replicas of this process are idle: they compute on a made-up row, for nothing.

    Whether a replica is idle is known when the step runs, not when it is traced, so each has a
    flag, a variable: functions of the user that are traced in one step and called in another can
    read it, and so can what merges the replicas, in a thread of its own.

    Args:
        number: the number of local replicas.
    """

    def __init__(self, number: int):
        self._thread = threading.local()
        self._steps = ReplicasFlag()
        with tf.init_scope(), tf.device("CPU:0"):
            self._flags = [tf.Variable(False, trainable=False) for _ in range(number)]

    @contextlib.contextmanager
    def step(self, replica: int, is_idle: tf.Tensor | bool):
        """Inside, this thread runs, or traces, a step of a local replica that may be idle."""
        flag = self._flags[replica]
        self._set(flag, is_idle)
        self._thread.flag = flag
        with tf.device("CPU:0"):  # where the ops that look at it want it, also those on a GPU
            self._thread.own = (_graph(), tf.identity(is_idle))
        try:
            with self._steps.raised(), summaries.left_out_if(self.here):
                yield
        finally:
            self._thread.own = self._thread.flag = None
            self._set(flag, False)

    @contextlib.contextmanager
    def nothing_left_out(self):
        """Inside, what this thread does is the program's own, and the same on all replicas."""
        flag = getattr(self._thread, "flag", None)
        self._thread.flag = None
        try:
            yield
        finally:
            self._thread.flag = flag

    @contextlib.contextmanager
    def read_once(self):
        """Inside, `here` returns what it does now: functions that XLA compiles read no flag."""
        self._thread.known = self.here()
        try:
            yield
        finally:
            self._thread.known = None

    def here(self) -> tf.Tensor | None:
        """Whether this thread's replica is idle; None where it can't be, or nothing is left out."""
        flag = getattr(self._thread, "flag", None)
        if flag is None:
            return None
        known = getattr(self._thread, "known", None)
        if known is not None:
            return known
        # Layers ask hundreds of times; only functions that are called in other steps must read.
        graph, is_idle = self._thread.own
        return is_idle if graph is _graph() else self._read(flag)

    def local(self) -> list[tf.Tensor] | None:
        """Whether each local replica is idle, asked from where they merge; None if none can be."""
        return [self._read(flag) for flag in self._flags] if self._steps.on else None

    def _set(self, flag: tf.Variable, value: tf.Tensor | bool) -> None:
        with tf.device("CPU:0"):
            flag.assign(value)

    def _read(self, flag: tf.Variable) -> tf.Tensor:
        with tf.device("CPU:0"):
            return flag.read_value()


def _graph() -> tf.Graph | None:
    """What this thread adds operations to; None where it runs them."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def zeros_if(is_idle: tf.Tensor, values: Sequence[Any]) -> list:
    """Returns the values (tensors or `tf.IndexedSlices`), or zeros; it copies nothing.

    Each by itself: gradients that are there already need not wait for those of earlier layers.
    """
    return [_zeros_if(is_idle, value) for value in values]


def _zeros_if(is_idle: tf.Tensor, value):
    if isinstance(value, tf.IndexedSlices):
        values = op.zeros_if(is_idle, value.values)
        return tf.IndexedSlices(values, value.indices, value.dense_shape)
    return op.zeros_if(is_idle, value)
