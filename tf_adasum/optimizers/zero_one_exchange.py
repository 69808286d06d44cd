"""What replicas of 0/1 Adam exchange: gradients or momenta, later those of local steps."""

from __future__ import annotations

from typing import Protocol

import keras
import tensorflow as tf
from typing_extensions import override

from tf_adasum.collectives.compression import Compression
from tf_adasum.collectives.refusals import refusal
from tf_adasum.optimizers.exchanges import local_results
from tf_adasum.optimizers.local_steps import LocalSteps
from tf_adasum.optimizers.momentum_exchange import MomentumExchange, MomentumOptimizer


class LocalOptimizer(MomentumOptimizer, Protocol):
    """What the exchange asks of the optimizer besides; of one variable of one replica."""

    def is_local(self) -> tf.Tensor:
        """Returns whether replicas take this step by themselves."""

    def round_length(self) -> tf.Tensor:
        """Returns after how many such steps they meet."""

    def step_size(self) -> tf.Tensor:
        """Returns the factor of the momentum in this step."""

    def own_average(self, variable: tf.Variable, start: tf.Variable, sizes: tf.Tensor) -> tf.Tensor:
        """Returns the average of the momenta that moved the replica's variable from `start`."""

    def end_round(
        self, momentum: tf.Tensor, variable: tf.Variable, start: tf.Variable, sizes: tf.Tensor
    ) -> None:
        """Takes a momentum as that of all replicas, and moves the variable from `start` by it."""


class ZeroOneExchange(LocalSteps):
    """As `MomentumExchange`, until steps are local; then the momentum's average of each round.

    Args:
        reduction: "mean" or "adasum", of all.
        compression: how momenta travel.
    """

    steps_per_exchange = None  # rounds grow

    def __init__(self, reduction: str, compression: Compression):
        super().__init__(1)
        self._momenta = MomentumExchange(reduction, compression)
        self.encoding, self.reduction = self._momenta.encoding, reduction

    @override
    def check(self, optimizer):
        if optimizer.use_ema:
            expected = "use_ema=False with ZeroOneAdam, which lets weights differ between replicas"
            received = f"use_ema=True for {optimizer.name!r}"
            raise ValueError(refusal(expected, received, "Leave use_ema out."))

    @override
    def build(self, optimizer: LocalOptimizer, variables):
        super().build(optimizer, variables)
        self._momenta.build(optimizer, variables)
        self._sizes = optimizer.add_variable(
            (),
            dtype=keras.config.floatx(),
            aggregation="only_first_replica",
            name="sum_of_step_sizes",
        )

    @override
    def get_config(self):
        return {}

    @override
    def around_step(self, strategy, step):
        is_local = self._optimizer.is_local()
        is_first = tf.logical_and(is_local, tf.equal(self._taken.value, 0))
        tf.cond(is_first, lambda: self._begin(strategy), lambda: None)
        step()
        tf.cond(is_local, lambda: self._after(strategy), lambda: None)

    def _after(self, strategy) -> None:
        self._taken.assign_add(1)
        self._sizes.assign_add(self._optimizer.step_size())
        taken = tf.cast(tf.convert_to_tensor(self._taken.value), tf.int64)
        ended = taken >= self._optimizer.round_length()
        tf.cond(ended, lambda: self._end(strategy), lambda: None)

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        of_rounds = super().around_update
        tf.cond(
            self._optimizer.is_local(),
            lambda: of_rounds(strategy, grads, variables, update, idle),
            lambda: self._momenta.around_update(strategy, grads, variables, update, idle),
        )

    @override
    def _end(self, strategy):
        super()._end(strategy)
        self._sizes.assign(0)

    @override
    def _meet(self, strategy, starts, weights):
        optimizer = self._optimizer
        sizes = tf.identity(self._sizes.value)

        def own_average(weight, start):
            return optimizer.own_average(weight, start, sizes)

        def move(weight, start, momentum):
            optimizer.end_round(momentum, weight, start, sizes)

        averages = [
            local_results(strategy, own_average, weight, start)
            for weight, start in zip(weights, starts)
        ]
        momenta = self._momenta.reduce(strategy, averages, weights, self.encoding)
        for weight, start, momentum in zip(weights, starts, momenta):
            strategy.extended.update(weight, move, args=(start, momentum), group=False)
