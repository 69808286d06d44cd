"""The losses of a model with several outputs, such as `a_loss`: the mean of all rows.

Keras weighs the loss that an output has in a batch by the output's length, as far as that is known
before the step; else batches count alike. So would those of replicas, however few rows one had.
Here they are weighed by the rows of the replica's batch, as the whole loss is.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileLoss

from tf_adasum.keras_hooks.core.around_steps import run_steps_by
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers
from tf_adasum.keras_hooks.idle.empty_batches import num_rows

require_hooks(CompileLoss, "call")
require_reads(CompileLoss, "call", "metrics", "update_state")
require_hooks(keras.metrics.Mean, "update_state")


class _Weighing(threading.local):
    """What this thread, a replica's, computes."""

    rows: int | tf.Tensor | None = None  # of the batch of its step
    metrics: Sequence[keras.metrics.Metric] = ()  # of the loss of outputs

    @contextlib.contextmanager
    def having(self, **values) -> Iterator[None]:
        """Inside, these are so."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)


_weighing = _Weighing()


def install() -> None:
    """Lets steps say how many rows they have, and `CompileLoss` weigh by them."""
    run_steps_by(_having_rows)
    call, update = CompileLoss.call, keras.metrics.Mean.update_state

    @functools.wraps(call)
    def call_and_weigh(self, y_true, y_pred, sample_weight=None):
        with _weighing.having(metrics=[] if _weighing.rows is None else self.metrics):
            return call(self, y_true, y_pred, sample_weight)

    @functools.wraps(update)
    def update_weighed(self, values, sample_weight=None):
        if any(self is metric for metric in _weighing.metrics):
            sample_weight = _weighing.rows
        return update(self, values, sample_weight)

    CompileLoss.call = call_and_weigh
    keras.metrics.Mean.update_state = update_weighed


def _having_rows(model, step_function, data):
    rows = None if replica_context_with_peers() is None else num_rows(data)
    with _weighing.having(rows=rows):
        return step_function(data)
