"""The losses of a model with several outputs, such as `a_loss`: the mean of all rows.

Keras weighs that of a batch by the batch's length, where it is known before the step. In replicas
it is not: each of them would count as much, however few rows it had. The length in the step is
what the whole loss is weighed by, too.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileLoss

from tf_adasum.keras_hooks.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.replicas import replica_context_with_peers

require_hooks(CompileLoss, "call")
require_reads(CompileLoss.call, "metrics", "update_state")
require_hooks(keras.metrics.Mean, "update_state")


class _Weighing(threading.local):
    """What a replica's thread weighs: metrics, by the rows of its batch."""

    metrics: Sequence[keras.metrics.Metric] = ()
    rows: tf.Tensor | None = None

    @contextlib.contextmanager
    def by(self, rows: tf.Tensor, metrics: Sequence[keras.metrics.Metric]) -> Iterator[None]:
        """Inside, they are weighed by a number of rows where they are given no weight."""
        self.metrics, self.rows = metrics, rows
        try:
            yield
        finally:
            self.metrics, self.rows = (), None


_weighing = _Weighing()


def install() -> None:
    """Lets `CompileLoss` weigh the loss of each output by the rows of the replica's batch."""
    call, update = CompileLoss.call, keras.metrics.Mean.update_state

    @functools.wraps(call)
    def call_and_weigh(self, y_true, y_pred, sample_weight=None):
        batches = [each for each in keras.tree.flatten(y_pred) if each.shape.rank != 0]
        if not batches or replica_context_with_peers() is None:
            return call(self, y_true, y_pred, sample_weight)
        with _weighing.by(tf.shape(batches[0])[0], self.metrics):
            return call(self, y_true, y_pred, sample_weight)

    @functools.wraps(update)
    def update_weighed(self, values, sample_weight=None):
        if sample_weight is None and any(self is metric for metric in _weighing.metrics):
            sample_weight = _weighing.rows
        return update(self, values, sample_weight)

    CompileLoss.call = call_and_weigh
    keras.metrics.Mean.update_state = update_weighed
