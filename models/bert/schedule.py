"""The schedule of the learning rate."""

from __future__ import annotations

import keras


@keras.saving.register_keras_serializable("models.bert")
class WarmupThenLinear(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that grows linearly from 0, and then falls linearly to 0.

    Args:
        largest: rate after the warm-up.
        warmup: steps in which it grows.
        steps: of all; it is 0 from there.

    Example:
        >>> [float(WarmupThenLinear(1.0, 2, 6)(step)) for step in range(7)]
        [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, largest: float, warmup: int, steps: int):
        self.largest, self.warmup, self.steps = largest, warmup, steps

    def __call__(self, step):
        """Returns the rate of a step, counted from 0."""
        step = keras.ops.cast(step, "float32")
        grown = step / max(1, self.warmup)
        left = (self.steps - step) / max(1, self.steps - self.warmup)
        return self.largest * keras.ops.clip(keras.ops.minimum(grown, left), 0.0, 1.0)

    def get_config(self) -> dict:
        """What the constructor takes."""
        return {"largest": self.largest, "warmup": self.warmup, "steps": self.steps}
