"""LearningRateWarmup: a learning rate that grows over the first steps."""

from __future__ import annotations

import keras
import numpy as np
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_float, checked_int
from tf_adasum.collectives.refusals import refusal


class LearningRateWarmup(keras.callbacks.Callback):
    """Lets the learning rate grow linearly over the first steps of a training.

    With n steps made (`optimizer.iterations`) and K = num_steps, the next step is made with

        learning_rate * (n + 1) / K

    and once K steps are made this callback leaves the rate alone, so that `ReduceLROnPlateau` or
    `LearningRateScheduler` may change it from there. It counts the optimizer's steps, not its own
    calls: a training that is resumed at step n goes on as it would have, and micro-batches of
    `accumulate` are no steps. The rate is set before each call of the train function, which makes
    several steps of one rate with `steps_per_execution`. All ranks have the callback.

    Args:
        learning_rate: the rate after the warm-up, a float > 0.
        num_steps: K, the steps of the warm-up, an int >= 1.

    Raises:
        ValueError: an argument is out of range.
        TypeError: an argument is of another type; and Keras', in `fit`: the optimizer's rate is a
            schedule, which nobody can set. Let the schedule warm up.

    Example:
        >>> import keras, tf_adasum
        >>> warmup = tf_adasum.callbacks.LearningRateWarmup(0.1, num_steps=4)
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
        >>> x = keras.ops.ones((16, 1))
        >>> _ = model.fit(x, x, batch_size=8, verbose=0, callbacks=[warmup])
        >>> print(f"{float(model.optimizer.learning_rate):.3f}")
        0.050

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.2 (gradual warm-up).
    """

    def __init__(self, learning_rate: float, num_steps: int):
        super().__init__()
        self.learning_rate = checked_float("learning_rate", learning_rate, 0, above=True)
        self.num_steps = checked_int("num_steps", num_steps, 1, NO_LIMIT)
        self._is_over = False

    stops_nothing = True  # so that ranks need not ask each other after each batch
    belongs_to_all_ranks = True  # which ranks compare when fit begins

    @override
    def on_train_begin(self, logs=None):
        if self.model.optimizer is None:
            expected = "a model that is compiled with the optimizer that LearningRateWarmup sets"
            received = f"{self.model.name!r}, which is compiled with none"
            advice = "Give the optimizers that it holds a schedule, or pass one to compile."
            raise RuntimeError(refusal(expected, received, advice))
        self._is_over = False

    @override
    def on_train_batch_begin(self, batch, logs=None):
        if self._is_over:
            return
        optimizer = self.model.optimizer
        steps = int(np.asarray(optimizer.iterations))
        if steps < self.num_steps:
            optimizer.learning_rate = self.learning_rate * ((steps + 1) / self.num_steps)
        else:
            self._is_over = True
