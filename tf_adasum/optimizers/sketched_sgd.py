"""Sketched SGD: replicas find by sketches which few values of their sums to exchange."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_float, checked_int
from tf_adasum.collectives.compression.compression import LEAST_ELEMENTS
from tf_adasum.collectives.compression.count_sketch import CountSketch
from tf_adasum.collectives.refusals import refusal
from tf_adasum.optimizers.keras_steps import accumulation_of
from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.parts import Parts
from tf_adasum.optimizers.sketch_exchange import SketchExchange
from tf_adasum.optimizers.wrap_checks import check_mean_or_adasum

_MOST_ELEMENTS = 2**31 - 1


@keras.saving.register_keras_serializable("tf_adasum")
class SketchedSGD(AdasumMixin, keras.optimizers.Optimizer):
    """Momentum SGD that exchanges the heaviest values of what gradients add up to; needs no `wrap`.

    With the gradients g_1 .. g_N of the replicas of an `AdasumStrategy`, learning rate r and, of
    each variable w of n elements, count sketches C of `rows` rows, in all s n values, and the k = f
    n heaviest places H:

        u_i <- m u_i + g_i,   e_i <- e_i + u_i                              on replica i
        H4 = 4 k heaviest places of mean(C(e_1), .., C(e_N)),   x = R(e_1[H4], .., e_N[H4])
        H = k heaviest places of x
        w[H] <- w[H] - r x[H],   u_i[H] <- 0,   e_i[H] <- 0

    so that 1 / (s + 4 f) times fewer bytes travel. Each step draws other hashes, the same on all
    ranks: places that share a cell in one are apart in the next. R is the reduction. Of small
    variables all of u_i is reduced. With one replica it is SGD with momentum, and nothing is
    exchanged.

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        momentum: m, from 0 to below 1.
        fraction: f, above 0 and at most 1. Where c, the columns of a sketch, are fewer than about
            8 k, light values pass for heavy ones.
        sketch_fraction: s, above 0 and at most 1; c = s n / rows.
        rows: of a sketch, from 1 to 101; more find the heaviest more surely.
        reduction: R, "mean" or "adasum".
        least_elements: variables of fewer elements count as small.
        **kwargs: what all Keras optimizers take: name, weight_decay, clipnorm, use_ema and so on.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.optimizers.SketchedSGD(0.1, fraction=0.001)

    Source: Ivkin et al., "Communication-efficient distributed SGD with sketching",
    arXiv:1903.04488, Algorithm 2.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (Keras' optimizers take their settings so)
        self,
        learning_rate: float | Callable = 0.01,
        momentum: float = 0.9,
        fraction: float = 0.001,
        sketch_fraction: float = 0.04,
        rows: int = 5,
        reduction: str = "mean",
        least_elements: int = LEAST_ELEMENTS,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        check_mean_or_adasum(reduction)
        self.fraction = checked_float("fraction", fraction, 0, 1, above=True)
        self.sketch_fraction = checked_float("sketch_fraction", sketch_fraction, 0, 1, above=True)
        self.momentum = checked_float("momentum", momentum, 0, 1, below=True)
        self.reduction = reduction
        self.rows = checked_int("rows", rows, 1, 101)
        self.least_elements = checked_int("least_elements", least_elements, 0, NO_LIMIT)
        self._adasum = Parts(accumulation_of(self), SketchExchange(reduction))

    @override
    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._sums, self._waiting = self.add_optimizer_variables(
            variables, ["momentum", "waiting_sum"]
        )

    def sketch_of(self, variable: tf.Variable) -> CountSketch | None:
        """Returns how the heaviest values of a variable are found; None: all of it is exchanged.

        Raises:
            ValueError: the sketch would have no column, or the variable is too large for it.
        """
        n = variable.shape.num_elements()
        if n < max(self.least_elements, 1):
            return None
        if n >= _MOST_ELEMENTS:
            expected = f"variables of less than {_MOST_ELEMENTS} values, whose places are int32"
            advice = "Split it, or use wrap(SGD(...))."
            raise ValueError(refusal(expected, f"{variable.name!r} of {n}", advice))
        columns = math.floor(self.sketch_fraction * n / self.rows)
        if columns < 1:
            expected = f"a sketch of at least {self.rows} values for a variable of {n}"
            received = f"sketch_fraction={self.sketch_fraction}"
            advice = "Take a larger sketch_fraction or least_elements."
            raise ValueError(refusal(expected, received, advice))
        step = tf.cast(ops.convert_to_tensor(self.iterations), tf.int64)
        return CountSketch(n, self.rows, columns, seed=tf.stack([step, 0]))

    def num_exchanged(self, sketch: CountSketch) -> int:
        """Returns k of a variable."""
        return math.ceil(self.fraction * sketch.num_elements)

    def accumulate(self, gradient: Any, variable: tf.Variable) -> tf.Tensor:
        """Adds a replica's gradient up; returns e_i, of a small variable u_i."""
        index = self._get_variable_index(variable)
        summed = self._added_up(gradient, variable)
        if self.sketch_of(variable) is None:
            return summed
        waiting = ops.convert_to_tensor(self._waiting[index]) + summed
        self.assign(self._waiting[index], waiting)
        return waiting  # not the variable, which other replicas would read as their own

    def _added_up(self, gradient: Any, variable: tf.Variable) -> tf.Tensor:
        kept = self._sums[self._get_variable_index(variable)]
        gradient = ops.cast(ops.convert_to_tensor(gradient), variable.dtype)
        summed = self.momentum * ops.convert_to_tensor(kept) + gradient
        self.assign(kept, summed)
        return summed

    def step_at(self, places: tf.Tensor | None, values: tf.Tensor, variable: tf.Variable) -> None:
        """Moves the variable by the values of all replicas at places; None: at all."""
        step = ops.cast(self.learning_rate, variable.dtype) * values
        if places is None:
            self.assign_sub(variable, step)
            return
        index = self._get_variable_index(variable)
        self.assign_sub(variable, _scattered(places, step, variable.shape))
        is_sent = _scattered(places, tf.ones_like(step), variable.shape) > 0
        for kept in (self._sums[index], self._waiting[index]):
            value = ops.convert_to_tensor(kept)
            self.assign(kept, tf.where(is_sent, tf.zeros_like(value), value))

    @override
    def update_step(self, gradient, variable, learning_rate):
        """Of a gradient that is that of all replicas."""
        step = ops.cast(learning_rate, variable.dtype) * self._added_up(gradient, variable)
        self.assign_sub(variable, step)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "fraction": self.fraction,
            "sketch_fraction": self.sketch_fraction,
            "rows": self.rows,
            "reduction": self.reduction,
            "least_elements": self.least_elements,
        }


def _scattered(places: tf.Tensor, values: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    return tf.reshape(tf.scatter_nd(places[:, None], values, [shape.num_elements()]), shape)
