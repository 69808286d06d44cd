"""1-bit LAMB: LAMB whose momenta travel as signs once its variance is frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.optimizers.frozen_variance import FrozenVarianceOptimizer

# Of the ratio of LAMB in the warm-up, and of the factor on the frozen one: the paper's.
_RATIO_BOUNDS = (0.01, 10.0)
_FACTOR_BOUNDS = (0.5, 4.0)


@keras.saving.register_keras_serializable("tf_adasum")
class OneBitLamb(FrozenVarianceOptimizer):
    """LAMB that exchanges gradients for a while and then momenta, encoded; it needs no `wrap`.

    m and v of a variable w are those of `OneBitAdam`, and so is

        u = sqrt(1 - b2^min(t, F)) / (1 - b1^t) m / (sqrt(v) + e)

    In the first F = freeze_step steps the learning rate r is scaled as LAMB does it, by

        c = clip(|w| / |u|, 0.01, 10),   w <- w - r c u,   c_F <- b3 c_F + (1 - b3) c

    Later c_F stays. Of the momentum m' of all replicas and the one before it, a gradient
    (m' - b1 m) / (1 - b1) is inferred, and of it a variance v' that goes on, from v at the freeze;
    of these a factor, which changes by at most 10 % a step:

        f = clip(max((sqrt(v) + e) / (sqrt(v') + e)), 0.5, 4),   w <- w - r f c_F u

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        freeze_step: F, at least 1; the paper takes 15 to 25 % of the steps.
        coefficient_beta: b3, from 0 to below 1.
        most_change: of f in a step, above 0 and below 1.
        **kwargs: what `OneBitAdam` takes besides; weight_decay is applied before, outside of u.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.optimizers.OneBitLamb(0.01, freeze_step=200)

    Source: Li et al., "1-bit LAMB", arXiv:2104.06069, Algorithm 1.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.001,
        freeze_step: int = 100,
        coefficient_beta: float = 0.9,
        most_change: float = 0.1,
        **kwargs,
    ):
        super().__init__(learning_rate, freeze_step, **kwargs)
        self.coefficient_beta = checked_float(
            "coefficient_beta", coefficient_beta, 0, 1, below=True
        )
        self.most_change = checked_float("most_change", most_change, 0, 1, above=True, below=True)

    @override
    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._fresh_variances = self.add_optimizer_variables(variables, "fresh_variance")
        self._coefficients, self._factors = (
            [self._scalar(name, value, variable) for variable in variables]
            for name, value in (("coefficient", "zeros"), ("factor", "ones"))
        )

    def _scalar(self, name: str, initializer: str, variable):
        return self.add_variable((), initializer, dtype=variable.dtype, name=name)

    @override
    def step_by(self, momentum: tf.Tensor, variable: tf.Variable) -> None:
        self._estimate_variance(momentum, self._get_variable_index(variable))
        super().step_by(momentum, variable)

    def _estimate_variance(self, momentum: tf.Tensor, index: int) -> None:
        """Moves v' by the gradient that made the momentum of the last one."""
        before = ops.convert_to_tensor(self._momenta[index])
        gradient = (momentum - self.beta_1 * before) / (1 - self.beta_1)
        fresh = self._fresh_variances[index]
        change = ops.square(gradient) - ops.convert_to_tensor(fresh)
        self.assign_add(fresh, (1 - self.beta_2) * change)

    @override
    def update_step(self, gradient, variable, learning_rate):
        self._estimate_variance(
            self.own_momentum(gradient, variable), self._get_variable_index(variable)
        )
        super().update_step(gradient, variable, learning_rate)

    @override
    def update_variable(self, variable, index, learning_rate):
        direction = self.direction(index)
        is_frozen = self.is_frozen()
        ratio = self._ratio(variable, direction)
        frozen, factor = self._coefficients[index], self._factors[index]
        kept = ops.convert_to_tensor(frozen)
        changed = self._new_factor(index, ops.convert_to_tensor(factor))
        self.assign(frozen, ops.where(is_frozen, kept, self._averaged(kept, ratio)))
        self.assign(factor, ops.where(is_frozen, changed, ops.ones_like(changed)))
        scale = ops.where(is_frozen, changed * kept, ratio)
        self.assign_sub(variable, learning_rate * scale * direction)

    def _averaged(self, kept, ratio):
        return self.coefficient_beta * kept + (1 - self.coefficient_beta) * ratio

    @staticmethod
    def _ratio(variable, direction):
        weight_norm, norm = (
            ops.sqrt(ops.sum(ops.square(ops.convert_to_tensor(x)))) for x in (variable, direction)
        )
        scales = ops.logical_and(weight_norm > 0, norm > 0)
        ratio = weight_norm / ops.where(scales, norm, ops.ones_like(norm))
        return ops.where(scales, ops.clip(ratio, *_RATIO_BOUNDS), ops.ones_like(ratio))

    def _new_factor(self, index: int, last):
        roots = [
            ops.sqrt(ops.convert_to_tensor(each[index])) + self.epsilon
            for each in (self._variances, self._fresh_variances)
        ]
        factor = ops.clip(ops.max(roots[0] / roots[1]), *_FACTOR_BOUNDS)
        return ops.clip(factor, last * (1 - self.most_change), last * (1 + self.most_change))

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "coefficient_beta": self.coefficient_beta,
            "most_change": self.most_change,
        }
