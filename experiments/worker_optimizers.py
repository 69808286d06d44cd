"""The optimizers of N workers: each makes its own steps from common weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

MakeOptimizer = Callable[[], keras.optimizers.Optimizer]


class StackedOptimizer:
    """One optimizer on the weights of all workers, stacked, for those that work element by element.

    Args:
        make: returns a new Keras optimizer.
        weights: the common ones.
        number: of workers.
    """

    def __init__(self, make: MakeOptimizer, weights: Sequence[tf.Variable], number: int):
        self._weights = weights
        self._stacked = [tf.Variable(tf.stack([weight] * number)) for weight in weights]
        self._optimizer = _Fresh(make, self._stacked)

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        self._optimizer.reset(rate)

    def set_rate(self, rate: float) -> None:
        """Takes this learning rate from now on."""
        self._optimizer.set_rate(rate)

    def steps(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns each worker's step from the common weights.

        Args:
            gradients: of every variable, stacked over the workers.

        Returns:
            Tensors of the same shapes.
        """
        for weight, stacked in zip(self._weights, self._stacked):
            stacked.assign(tf.broadcast_to(weight, stacked.shape))
        self._optimizer.apply(gradients, self._stacked)
        return [new - old for new, old in zip(self._stacked, self._weights)]


class SeparateOptimizers:
    """An optimizer for each worker, for those that look at a whole variable (LAMB, LARS).

    Args and methods as of StackedOptimizer.
    """

    def __init__(self, make: MakeOptimizer, weights: Sequence[tf.Variable], number: int):
        self._weights = weights
        self._own = [[tf.Variable(weight) for weight in weights] for _ in range(number)]
        self._optimizers = [_Fresh(make, own) for own in self._own]

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        for optimizer in self._optimizers:
            optimizer.reset(rate)

    def set_rate(self, rate: float) -> None:
        """Takes this learning rate from now on."""
        for optimizer in self._optimizers:
            optimizer.set_rate(rate)

    def steps(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns each worker's step from the common weights, stacked as the gradients are."""
        of_workers = zip(*(tf.unstack(gradient, len(self._own)) for gradient in gradients))
        steps = []
        for optimizer, own, of_worker in zip(self._optimizers, self._own, of_workers):
            for weight, variable in zip(self._weights, own):
                variable.assign(weight)
            optimizer.apply(of_worker, own)
            steps.append([new - old for new, old in zip(own, self._weights)])
        return [tf.stack(of_variable) for of_variable in zip(*steps)]


class _Fresh:
    """A Keras optimizer that can begin anew, so that a traced step serves many runs."""

    def __init__(self, make: MakeOptimizer, variables: list[tf.Variable]):
        self._optimizer = make()
        self._optimizer.build(variables)
        self._first = [variable.numpy() for variable in self._optimizer.variables]
        self.apply = self._optimizer.apply

    def reset(self, rate: float) -> None:
        for variable, value in zip(self._optimizer.variables, self._first):
            variable.assign(value)
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        self._optimizer.learning_rate = np.float32(rate)
