"""What 1-bit Adam, 0/1 Adam and 1-bit LAMB share: where the variance stays, momenta travel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_float, checked_int
from tf_adasum.collectives.communicator import rank
from tf_adasum.collectives.compression import Compression, Sign
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of
from tf_adasum.optimizers.keras_steps import accumulation_of
from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.momentum_exchange import MomentumExchange
from tf_adasum.optimizers.parts import Exchange, Parts
from tf_adasum.optimizers.wrap_checks import check_mean_or_adasum


class FrozenVarianceOptimizer(AdasumMixin, keras.optimizers.Optimizer):
    """Keeps momentum and variance of each variable; subclasses say what a step makes of them.

    Args:
        learning_rate: a float, a schedule, or a callable that returns it.
        freeze_step: after so many steps the variance stays.
        beta_1: of the momentum.
        beta_2: of the variance.
        epsilon: is added to the square root of the variance.
        compression: how momenta travel from then on; None: `Sign()`.
        reduction: "mean" or "adasum", of gradients and momenta.
        **kwargs: what all Keras optimizers take.
    """

    _until_freeze = "nothing travelled encoded"

    def __init__(  # noqa: PLR0913, PLR0917 (Keras' optimizers take their settings so)
        self,
        learning_rate: float | Callable = 0.001,
        freeze_step: int = 100,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        compression: Compression | None = None,
        reduction: str = "mean",
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        check_mean_or_adasum(reduction)
        self.beta_1 = checked_float("beta_1", beta_1, 0, 1, below=True)
        self.beta_2 = checked_float("beta_2", beta_2, 0, 1, below=True)
        self.epsilon = checked_float("epsilon", epsilon, 0, above=True)
        self.freeze_step = checked_int("freeze_step", freeze_step, 1, NO_LIMIT)
        self.reduction = reduction
        self.compression = Sign() if compression is None else compression
        self._adasum = Parts(accumulation_of(self), self._make_exchange())

    def _make_exchange(self) -> Exchange:
        return MomentumExchange(self.reduction, self.compression)

    @override
    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momenta, self._variances = self.add_optimizer_variables(
            variables, ["momentum", "variance"]
        )

    def is_frozen(self) -> tf.Tensor:
        """Returns whether the variance stays in this step."""
        return tf.convert_to_tensor(self.iterations) >= self.freeze_step

    def own_momentum(self, gradient: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
        """Returns b1 m + (1 - b1) g of this replica."""
        momentum = ops.convert_to_tensor(self._momenta[self._get_variable_index(variable)])
        return momentum + (1 - self.beta_1) * (ops.cast(gradient, variable.dtype) - momentum)

    def step_by(self, momentum: tf.Tensor, variable: tf.Variable) -> None:
        """Takes a momentum as that of all replicas, and updates the variable by it."""
        index = self._get_variable_index(variable)
        self.assign(self._momenta[index], momentum)
        self.update_variable(variable, index, ops.cast(self.learning_rate, variable.dtype))

    @override
    def update_step(self, gradient, variable, learning_rate):
        """Of a gradient that is that of all replicas."""
        index = self._get_variable_index(variable)
        gradient = ops.cast(tf.convert_to_tensor(gradient), variable.dtype)  # rows added up
        variance = self._variances[index]
        change = (1 - self.beta_2) * (ops.square(gradient) - ops.convert_to_tensor(variance))
        self.assign(self._momenta[index], self.own_momentum(gradient, variable))
        self.assign_add(variance, ops.where(self.is_frozen(), ops.zeros_like(change), change))
        self.update_variable(variable, index, ops.cast(learning_rate, variable.dtype))

    def update_variable(self, variable: tf.Variable, index: int, learning_rate: Any) -> None:
        """Updates a variable by its momentum and variance, which are those of the step.

        Args:
            variable: which.
            index: its number among the optimizer's.
            learning_rate: a scalar of its dtype.
        """
        raise NotImplementedError

    def direction(self, index: int) -> Any:
        """Returns sqrt(1 - b2^n) / (1 - b1^t) m / (sqrt(v) + e); 0 where v is 0.

        t is the step, from 1, and n how many of them changed v. v is 0 where the warm-up had no
        gradient: the step has no scale there, and m may be no more than the encoding's error.
        """
        momentum = ops.convert_to_tensor(self._momenta[index])
        moves = self.scale(momentum.dtype) * momentum / self._denominator(index)
        return ops.where(self._moves(index), moves, ops.zeros_like(moves))

    def scale(self, dtype: Any) -> Any:
        """Returns sqrt(1 - b2^n) / (1 - b1^t), which corrects the biases of v and m."""
        step = ops.convert_to_tensor(self.iterations) + 1
        # In bfloat16 b2 = 0.999 would be 1, and no weight would ever move.
        exact = "float64" if dtype == "float64" else "float32"
        of_momentum = self._correction(self.beta_1, step, exact)
        of_variance = self._correction(self.beta_2, self._num_variance_updates(), exact)
        return ops.cast(ops.sqrt(of_variance) / of_momentum, dtype)

    def _num_variance_updates(self) -> Any:
        """With that of this step."""
        return ops.minimum(ops.convert_to_tensor(self.iterations) + 1, self.freeze_step)

    def _denominator(self, index: int) -> Any:
        return ops.sqrt(ops.convert_to_tensor(self._variances[index])) + self.epsilon

    def _moves(self, index: int) -> Any:
        """Where v is not 0, be it NaN, which is to show."""
        return ops.not_equal(ops.convert_to_tensor(self._variances[index]), 0)

    @staticmethod
    def _correction(beta: float, step: Any, dtype: Any) -> Any:
        return 1 - ops.power(ops.cast(beta, dtype), ops.cast(step, dtype))

    @override
    def finalize_variable_values(self, var_list):
        super().finalize_variable_values(var_list)
        steps = int(self.iterations)
        if steps <= self.freeze_step and self._speaks():
            warnings.warn(
                f"Expected freeze_step below the number of steps, say 20 % of them. Received: "
                f"freeze_step={self.freeze_step} and {steps} steps so far, in which "
                f"{self._until_freeze}.",
                stacklevel=2,
            )

    def _speaks(self) -> bool:
        """Whether this is rank 0 of those that train, which may be a group without the world's."""
        strategy = strategy_of(self)
        is_ours = isinstance(strategy, AdasumStrategy)
        return (strategy.extended.communicator.rank if is_ours else rank()) == 0

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "freeze_step": self.freeze_step,
            "compression": self.compression.get_config(),
            "reduction": self.reduction,
        }

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: dict | None = None):
        compression = Compression.from_config(config["compression"])
        return super().from_config({**config, "compression": compression}, custom_objects)
