"""What replicas exchange where the variance gets frozen: gradients first, then momenta."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf
from typing_extensions import override

from tf_adasum.collectives.compression import Compression
from tf_adasum.optimizers.exchanges import SUM, local_results
from tf_adasum.optimizers.parts import Exchange
from tf_adasum.optimizers.variable_encoding import VariableEncoding


class MomentumOptimizer(Protocol):
    """What the exchange asks of the optimizer; each for one variable of one replica."""

    def is_frozen(self) -> tf.Tensor:
        """Returns whether momenta are exchanged in this step."""

    def own_momentum(self, gradient: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
        """Returns what the replica's momentum becomes of its gradient; assigns nothing."""

    def step_by(self, momentum: tf.Tensor, variable: tf.Variable) -> None:
        """Takes a momentum as that of all replicas, and updates the variable by it."""


class MomentumExchange(Exchange):
    """Gradients until the variance is frozen, as they are; from then on momenta, encoded.

    Args:
        reduction: "mean" or "adasum", of both.
        compression: how momenta travel.
    """

    def __init__(self, reduction: str, compression: Compression):
        self.reduction = reduction
        self.encoding = VariableEncoding(compression)

    @override
    def build(self, optimizer: MomentumOptimizer, variables):
        self._optimizer = optimizer

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        del idle  # their gradients are zero; the step is the same on all replicas
        dense = [
            local_results(strategy, _dense, variable, grad)
            for variable, grad in zip(variables, grads)
        ]
        tf.cond(
            self._optimizer.is_frozen(),
            lambda: self._step_by_momenta(strategy, dense, variables),
            lambda: update(self.reduce(strategy, dense, variables, None)),
        )

    def _step_by_momenta(self, strategy, grads, variables) -> None:
        optimizer = self._optimizer

        def own_momentum(variable, grad):
            return optimizer.own_momentum(grad, variable)

        def step(variable, momentum):
            optimizer.step_by(momentum, variable)

        momenta = [
            local_results(strategy, own_momentum, variable, grad)
            for variable, grad in zip(variables, grads)
        ]
        reduced = self.reduce(strategy, momenta, variables, self.encoding)
        for variable, momentum in zip(variables, reduced):
            strategy.extended.update(variable, step, args=(momentum,), group=False)

    def reduce(self, strategy, values, variables, encoding) -> list:
        """Returns the reductions of values per replica, one variable each, which travel encoded."""
        with strategy.extended.asking(encoding=encoding, reduction=self.reduction):
            return strategy.extended.batch_reduce_to(SUM, list(zip(values, variables)))


def _dense(variable: tf.Variable, gradient) -> tf.Tensor:
    del variable
    return tf.convert_to_tensor(gradient)
