"""0/1 Adam: signs from the first steps on, and then local steps between two exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_int
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.optimizers.frozen_variance import FrozenVarianceOptimizer
from tf_adasum.optimizers.zero_one_exchange import ZeroOneExchange

_MOST_DOUBLINGS = 40


@keras.saving.register_keras_serializable("tf_adasum")
class ZeroOneAdam(FrozenVarianceOptimizer):
    """Adam that exchanges few gradients, else momenta, and later what K steps add up to, encoded.

    With the gradients g_1 .. g_N of the replicas of an `AdasumStrategy`, learning rate r, the step
    t from 0, F = freeze_step, k = variance_interval and V, the steps before F that lie 1 apart k
    times, then 2 apart k times, then 4 and so on:

        t in V:   m, v and w as Adam of g = mean(g_1, .., g_N), which travels as it is
        else:     m <- C-mean(b1 m + (1 - b1) g_1, .., b1 m + (1 - b1) g_N),   v stays

        w <- w - c m / (sqrt(v) + e),   c = r sqrt(1 - b2^n) / (1 - b1^(t + 1))

    where n counts the steps of V so far and C-mean is the allreduce of tensors that travel encoded,
    with error feedback. From step F on every replica i takes K such steps by itself, from common
    weights w with its own m_i; then

        m <- C-mean(a_1, .., a_N),   a_i = (sum of its c m_i) / (sum of the c), m_i if all c are 0
        w <- w - (sum of the c) m / (sqrt(v) + e)

    K is 1 at F and doubles every `doubling_steps` steps, up to `most_local_steps`. Weights whose v
    is zero stay. With weight_decay D what earlier steps of a round moved decays with the weights:
    each later one takes their c m_i in a_i times 1 - D r. Small variables travel as they are.
    Residuals are kept by `callbacks.BackupAndRestore`. With one replica nothing is exchanged.

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        freeze_step: F, at least 1.
        variance_interval: k, at least 1.
        doubling_steps: so many steps with one K, at least 1.
        most_local_steps: the largest K, a power of two.
        **kwargs: what `OneBitAdam` takes besides; use_ema must be left out.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.optimizers.ZeroOneAdam(1e-3, freeze_step=1000)

    Source: Lu et al., "0/1 Adam", ICLR 2023 (arXiv:2202.06009), Algorithm 1; there the sum of the
    c m_i travels, gradients and momenta both in the steps of V, and no biases are corrected.
    """

    _until_freeze = "replicas met in every step"

    def __init__(
        self,
        learning_rate: float | Callable = 0.001,
        freeze_step: int = 100,
        variance_interval: int = 16,
        doubling_steps: int = 1000,
        most_local_steps: int = 16,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, freeze_step, **kwargs)
        self.variance_interval = checked_int("variance_interval", variance_interval, 1, 2**31)
        self.doubling_steps = checked_int("doubling_steps", doubling_steps, 1, NO_LIMIT)
        self.most_local_steps = checked_int("most_local_steps", most_local_steps, 1, 2**20)
        if most_local_steps & (most_local_steps - 1):
            expected, advice = "most_local_steps to be a power of two", "Pass 16, say."
            raise ValueError(refusal(expected, shown(most_local_steps), advice))
        self._adasum.exchange.check(self)

    @override
    def _make_exchange(self):
        return ZeroOneExchange(self.reduction, self.compression)

    @override
    def is_frozen(self):
        block, begin = self._block(self._step())
        is_due = tf.equal((self._step() - begin) % _power(block), 0)
        return tf.logical_or(self.is_local(), tf.logical_not(is_due))

    def is_local(self) -> tf.Tensor:
        """Returns whether replicas take this step by themselves."""
        return self._step() >= self.freeze_step

    def round_length(self) -> tf.Tensor:
        """Returns K, int64, of a round that is under way in this step."""
        doublings = (self._step() - self.freeze_step) // self.doubling_steps
        most = self.most_local_steps.bit_length() - 1
        return _power(tf.clip_by_value(doublings, 0, most))

    def step_size(self) -> tf.Tensor:
        """Returns c of this step."""
        dtype = keras.config.floatx()
        return ops.cast(self.learning_rate, dtype) * self.scale(dtype)

    def own_average(self, variable: tf.Variable, start: tf.Variable, sizes: tf.Tensor) -> tf.Tensor:
        """Returns a_i of a variable of one replica; 0 where it does not move.

        Args:
            variable: as the replica's steps left it.
            start: its value when the round began.
            sizes: the sum of the c.
        """
        index = self._get_variable_index(variable)
        moved = (ops.convert_to_tensor(start) - variable) * self._denominator(index)
        sizes = ops.cast(sizes, moved.dtype)
        has_size = ops.not_equal(sizes, 0)
        average = moved / ops.where(has_size, sizes, ops.ones_like(sizes))
        average = ops.where(has_size, average, ops.convert_to_tensor(self._momenta[index]))
        return ops.where(self._moves(index), average, ops.zeros_like(average))

    def end_round(
        self, momentum: tf.Tensor, variable: tf.Variable, start: tf.Variable, sizes: tf.Tensor
    ) -> None:
        """Takes a momentum as that of all replicas, and moves the variable from `start` by it."""
        index = self._get_variable_index(variable)
        moves = ops.cast(sizes, momentum.dtype) * momentum / self._denominator(index)
        moves = ops.where(self._moves(index), moves, ops.zeros_like(moves))
        self.assign(variable, ops.convert_to_tensor(start) - moves)
        self.assign(self._momenta[index], momentum)

    @override
    def update_variable(self, variable, index, learning_rate):
        self.assign_sub(variable, learning_rate * self.direction(index))

    @override
    def _num_variance_updates(self):
        last = tf.minimum(self._step(), self.freeze_step - 1)
        block, begin = self._block(last)
        return self.variance_interval * block + (last - begin) // _power(block) + 1

    def _block(self, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The number j of the steps that are 2^j apart and the first of them; both int64."""
        powers = tf.constant([1 << j for j in range(1, _MOST_DOUBLINGS)], tf.int64)
        is_past = step // self.variance_interval + 1 >= powers
        block = tf.math.count_nonzero(is_past)
        return block, self.variance_interval * (_power(block) - 1)

    def _step(self) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(self.iterations), tf.int64)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "variance_interval": self.variance_interval,
            "doubling_steps": self.doubling_steps,
            "most_local_steps": self.most_local_steps,
        }


def _power(exponent: tf.Tensor) -> tf.Tensor:
    """Of two; int64."""
    return tf.bitwise.left_shift(tf.ones_like(exponent), exponent)
