"""What of `tf.summary` is written nowhere: other ranks' events, and an idle replica's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.ops import summary_ops_v2

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

# Each thread's own: its default writer and step, and whether TensorFlow lets its replica record.
require_hooks(summary_ops_v2, "_summary_state")
_LETS_RECORD = "is_recording_distribution_strategy"
require_reads(summary_ops_v2, "_should_record_summaries_internal", "writer", _LETS_RECORD)
_state = summary_ops_v2._summary_state


class NoWriter(tf.summary.SummaryWriter):
    """Where it is the default, nothing is written, also not by the writer that was it before.

    TensorFlow's own (`tf.summary.create_noop_writer`) leaves that one the default, and no step.
    """

    def set_as_default(self, step=None):
        """Becomes this thread's default, with this step if one is given."""
        _state.writer = None
        if step is not None:
            _state.step = step

    @contextlib.contextmanager
    def as_default(self, step=None):
        """Is the default inside, with this step if one is given."""
        before = _state.writer, _state.step
        self.set_as_default(step)
        try:
            yield self
        finally:
            _state.writer = before[0]
            if step is not None:
                _state.step = before[1]

    def init(self):
        """Has nothing to begin."""

    def flush(self):
        """Has nothing to flush."""

    def close(self):
        """Has nothing to close."""


@contextlib.contextmanager
def left_out_if(is_idle: Callable[[], tf.Tensor | None]):
    """Inside, summaries of this thread are recorded only where its replica is not idle.

    Args:
        is_idle: asked at each summary; None where the replica can't be.
    """
    before = getattr(_state, _LETS_RECORD)

    def lets_record():
        let, idle = before() if callable(before) else before, is_idle()
        return let if idle is None else tf.logical_and(let, tf.logical_not(idle))

    setattr(_state, _LETS_RECORD, lets_record)
    try:
        yield
    finally:
        setattr(_state, _LETS_RECORD, before)
