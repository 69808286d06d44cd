"""CADA: the AMSGrad step of gradients that ranks upload only where they say something new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.collectives.refusals import refusal
from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.parts import Accumulation, Parts
from tf_adasum.optimizers.sync.lazy import Lazy
from tf_adasum.optimizers.variable_encoding import VariableEncoding


@keras.saving.register_keras_serializable("tf_adasum")
class CADA(AdasumMixin, keras.optimizers.Optimizer):
    """AMSGrad that uploads few gradients; needs no `wrap`.

    With G, the mean of what the replicas of an `AdasumStrategy` uploaded last, by the rule of
    `adasum.sync.Lazy`, and learning rate r:

        m <- b1 m + (1 - b1) G
        v <- max(v, b2 v + (1 - b2) G^2)
        w <- w - r m / sqrt(v + e)

    With one replica it is that of its own gradients.

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        beta_1: b1, from 0 to below 1.
        beta_2: b2, from 0 to below 1.
        epsilon: e, above 0.
        rule: as for `Lazy`, and so are the next three.
        threshold: c.
        num_moves: d_max.
        most_steps: D.
        **kwargs: what all Keras optimizers take: name, weight_decay, clipnorm, use_ema and so on.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.optimizers.CADA(5e-4)

    Source: Chen et al., "CADA: Communication-Adaptive Distributed Adam", AISTATS 2021
    (arXiv:2012.15469), Algorithm 1 and equation 2.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (Keras' optimizers take their settings so)
        self,
        learning_rate: float | Callable = 5e-4,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        rule: int = 2,
        threshold: float = 1.0,
        num_moves: int = 10,
        most_steps: int = 20,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta_1 = checked_float("beta_1", beta_1, 0, 1, below=True)
        self.beta_2 = checked_float("beta_2", beta_2, 0, 1, below=True)
        self.epsilon = checked_float("epsilon", epsilon, 0, above=True)
        self._lazy = Lazy(rule, threshold, num_moves, most_steps)
        if self.gradient_accumulation_steps:
            expected = (
                "the gradients of one batch, which CADA compares, and not what several add up to"
            )
            received = f"gradient_accumulation_steps={self.gradient_accumulation_steps}"
            raise ValueError(refusal(expected, received, "Leave it out."))
        self._adasum = Parts(Accumulation(), self._lazy.exchange("gradient"))
        self._adasum.exchange.encoding = VariableEncoding(None, plain_for="CADA")

    @override
    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momenta = [self.add_variable_from_reference(v, "momentum") for v in variables]
        self._velocities = [self.add_variable_from_reference(v, "velocity") for v in variables]

    @override
    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momenta[index], self._velocities[index]
        gradient = ops.cast(tf.convert_to_tensor(gradient), variable.dtype)  # rows added up
        rate = ops.cast(learning_rate, variable.dtype)
        self.assign(momentum, self.beta_1 * momentum + (1 - self.beta_1) * gradient)
        squares = self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient)
        self.assign(velocity, ops.maximum(velocity, squares))
        self.assign_sub(variable, rate * momentum / ops.sqrt(velocity + self.epsilon))

    @override
    def get_config(self) -> dict[str, Any]:
        lazy = self._lazy.get_config()
        del lazy["name"]
        betas = {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}
        return {**super().get_config(), **betas, **lazy}
