"""How long a rank computes on its rows, without what it waits for others."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros


class RowTimes:
    """Rows and seconds of a rank's training steps, from the batch to what it has to exchange.

    The first step after each question is left out: it allocates memory and compiles new shapes. So
    is a step without rows. Of several local replicas the first one counts for all.
    """

    def __init__(self):
        self._speed = 0.0
        names = ("steps", "of_step", "began", "rows", "seconds")
        self._noted = {name: make_plain_zeros([]) for name in names}

    def begin(self, rows: tf.Tensor) -> None:
        """Notes that a step begins, on so many rows; float32."""
        noted, rows = self._noted, tf.cast(rows, tf.float64)
        noted["of_step"].assign(rows)
        with tf.control_dependencies([rows]):
            noted["began"].assign(tf.timestamp())

    def end(self, values: Any) -> None:
        """Notes that the step's values are computed; only the first time in a step."""
        noted = self._noted
        with tf.device("CPU:0"), tf.control_dependencies(tf.nest.flatten(values)):
            now = tf.timestamp()
            began, steps = noted["began"].read_value(), noted["steps"].read_value()
            rows = noted["of_step"].read_value()
            counts = tf.cast(tf.reduce_all([began > 0, steps > 0, rows > 0]), tf.float64)
            noted["seconds"].assign_add(counts * (now - began))
            noted["rows"].assign_add(counts * rows)
            noted["began"].assign(0.0)
            noted["steps"].assign_add(1.0)

    def rows_per_second(self) -> float:
        """Returns the speed since the last call, or that of then; 0 before any row was counted."""
        rows, seconds = (float(self._noted[name].numpy()) for name in ("rows", "seconds"))
        for name in ("rows", "seconds", "steps"):
            self._noted[name].assign(0.0)
        if rows > 0 and seconds > 0:
            self._speed = rows / seconds
        return self._speed
