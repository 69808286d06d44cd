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

    Attributes:
        own_weights: those at which workers take gradients, stacked; None: the common ones.
    """

    own_weights: list[tf.Variable] | None = None

    def __init__(self, make: MakeOptimizer, weights: Sequence[tf.Variable], number: int):
        self._weights = weights
        self._stacked = [tf.Variable(tf.stack([weight] * number)) for weight in weights]
        self._optimizer = Fresh(make, self._stacked)

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
        return self.round(lambda step, stacked: gradients, 1)

    def round(self, gradients_of: Callable, count: int) -> list[tf.Tensor]:
        """Returns the change of each worker's weights after so many steps by itself.

        Args:
            gradients_of: called with the step's number and the workers' weights, stacked; returns
                the gradients there.
            count: of the steps.
        """
        for weight, stacked in zip(self._weights, self._stacked):
            stacked.assign(tf.broadcast_to(weight, stacked.shape))
        for step in range(count):
            self._optimizer.apply(gradients_of(step, self._stacked), self._stacked)
        return [new - old for new, old in zip(self._stacked, self._weights)]


class SeparateOptimizers:
    """An optimizer for each worker, for those that look at a whole variable (LAMB, LARS).

    One optimizer makes the steps of all in turn, each with that worker's slots: its graph is
    traced once, and not once a worker.

    Args, attributes and methods as of StackedOptimizer.
    """

    own_weights: list[tf.Variable] | None = None

    def __init__(self, make: MakeOptimizer, weights: Sequence[tf.Variable], number: int):
        self._weights, self._number = weights, number
        self._own = [tf.Variable(weight) for weight in weights]
        self._optimizer = Fresh(make, self._own)
        self._slots = self._optimizer.slots()
        self._of_workers = [tf.Variable(tf.stack([slot.value] * number)) for slot in self._slots]

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        self._optimizer.reset(rate)
        for slot, of_workers in zip(self._slots, self._of_workers):
            of_workers.assign(tf.broadcast_to(slot.value, of_workers.shape))

    def set_rate(self, rate: float) -> None:
        """Takes this learning rate from now on."""
        self._optimizer.set_rate(rate)

    def steps(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns each worker's step from the common weights, stacked as the gradients are."""
        steps = [tf.TensorArray(weight.dtype, self._number) for weight in self._weights]
        for worker in tf.range(self._number):
            mine = self._steps_of(worker, [gradient[worker] for gradient in gradients])
            steps = [array.write(worker, step) for array, step in zip(steps, mine)]
        return [array.stack() for array in steps]

    def _steps_of(self, worker: tf.Tensor, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        for variable, weight in zip(self._own, self._weights):
            variable.assign(weight)
        for slot, of_workers in zip(self._slots, self._of_workers):
            slot.assign(of_workers[worker])
        self._optimizer.apply(gradients, self._own)
        for slot, of_workers in zip(self._slots, self._of_workers):
            of_workers.scatter_nd_update([[worker]], slot.value[None])
        return [new - old for new, old in zip(self._own, self._weights)]


class Fresh:
    """A Keras optimizer that can begin anew, so that a traced step serves many runs."""

    def __init__(self, make: MakeOptimizer, variables: list[tf.Variable]):
        self.optimizer = make()
        self.optimizer.build(variables)
        self._first = [variable.numpy() for variable in self.optimizer.variables]
        self.apply = self.optimizer.apply

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        for variable, value in zip(self.optimizer.variables, self._first):
            variable.assign(value)
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        """Takes this learning rate from now on."""
        self.optimizer.learning_rate = np.float32(rate)

    def slots(self) -> list[keras.Variable]:
        """All that it keeps from step to step."""
        rate = self.optimizer.learning_rate
        return [variable for variable in self.optimizer.variables if variable is not rate]
