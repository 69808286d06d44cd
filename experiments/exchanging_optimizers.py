"""tf_adasum's optimizers that exchange something of their own, for N workers of one process.

Each has `step(gradients, reduce, exchange)`, which moves the common weights: `reduce` combines
tensors that are stacked over the workers, and `exchange` does so with such as travel encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from experiments.worker_optimizers import Fresh, MakeOptimizer
from tf_adasum.optimizers.sketch_exchange import num_candidates

Reduce = Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]


class ExchangingOptimizer:
    """What all of them have.

    Args:
        make: returns a new optimizer.
        weights: the common ones.
        number: of workers.

    Attributes:
        own_weights: as of StackedOptimizer.
    """

    own_weights: list[tf.Variable] | None = None

    def __init__(self, make: MakeOptimizer, weights: Sequence[tf.Variable], number: int):
        self._weights, self._number = weights, number
        self._fresh = Fresh(make, self._built_on())
        self._optimizer = self._fresh.optimizer
        self.set_rate = self._fresh.set_rate

    def _built_on(self) -> Sequence[tf.Variable]:
        return self._weights

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        self._fresh.reset(rate)

    def end(self, exchange: Reduce) -> None:
        """Ends a round of local steps early; here there are none."""
        del exchange


class MomentumOptimizer(ExchangingOptimizer):
    """`OneBitAdam` and `OneBitLamb`: momentum and variance are common to the workers."""

    def step(self, gradients: Sequence[tf.Tensor], reduce: Reduce, exchange: Reduce) -> None:
        """Moves the common weights."""
        optimizer = self._optimizer

        def by_momenta() -> None:
            pairs = zip(gradients, self._weights)
            momenta = exchange([optimizer.own_momentum(*pair) for pair in pairs])
            for momentum, weight in zip(momenta, self._weights):
                optimizer.step_by(momentum, weight)
            optimizer.iterations.assign_add(1)

        tf.cond(
            optimizer.is_frozen(),
            by_momenta,
            lambda: optimizer.apply(reduce(gradients), self._weights),
        )


class ZeroOneOptimizer(ExchangingOptimizer):
    """`ZeroOneAdam`: one optimizer on the weights of all workers, stacked."""

    def _built_on(self) -> list[tf.Variable]:
        self.own_weights = [tf.Variable(tf.stack([w] * self._number)) for w in self._weights]
        self._taken, self._sizes = tf.Variable(0, dtype=tf.int64), tf.Variable(0.0)
        return self.own_weights

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        super().reset(rate)
        for own, weight in zip(self.own_weights, self._weights):
            own.assign(tf.broadcast_to(weight, own.shape))
        self._taken.assign(0)
        self._sizes.assign(0)

    def step(self, gradients: Sequence[tf.Tensor], reduce: Reduce, exchange: Reduce) -> None:
        """Moves all workers' weights, and the common ones where they meet."""
        optimizer = self._optimizer

        def by_gradients() -> None:
            optimizer.apply(self._for_all(reduce(gradients)), self.own_weights)
            self._meet()

        def by_momenta() -> None:
            pairs = zip(gradients, self.own_weights)
            momenta = exchange([optimizer.own_momentum(*pair) for pair in pairs])
            for momentum, weight in zip(self._for_all(momenta), self.own_weights):
                optimizer.step_by(momentum, weight)
            optimizer.iterations.assign_add(1)
            self._meet()

        def alone() -> None:
            self._sizes.assign_add(optimizer.step_size())
            length = optimizer.round_length()
            optimizer.apply(gradients, self.own_weights)
            tf.cond(self._taken.assign_add(1) >= length, lambda: self._end(exchange), lambda: None)

        tf.cond(
            optimizer.is_local(),
            alone,
            lambda: tf.cond(optimizer.is_frozen(), by_momenta, by_gradients),
        )

    def end(self, exchange: Reduce) -> None:
        """Ends a round of local steps early."""
        tf.cond(self._taken > 0, lambda: self._end(exchange), lambda: None)

    def _end(self, exchange: Reduce) -> None:
        pairs = list(zip(self.own_weights, self._weights))
        averages = [self._optimizer.own_average(*pair, self._sizes) for pair in pairs]
        momenta = self._for_all(exchange(averages))
        for (own, weight), momentum in zip(pairs, momenta):
            self._optimizer.end_round(momentum, own, weight, self._sizes)
        self._taken.assign(0)
        self._sizes.assign(0)
        self._meet()

    def _meet(self) -> None:
        for own, weight in zip(self.own_weights, self._weights):
            weight.assign(own[0])

    def _for_all(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        pairs = zip(tensors, self.own_weights)
        return [tf.broadcast_to(tensor, own.shape) for tensor, own in pairs]


class SketchedOptimizer(ExchangingOptimizer):
    """`SketchedSGD`: each worker adds up what it did not exchange."""

    def _built_on(self) -> Sequence[tf.Variable]:
        shapes = [(self._number, *weight.shape) for weight in self._weights]
        self._sums, self._waiting = ([tf.Variable(tf.zeros(s)) for s in shapes] for _ in range(2))
        return self._weights

    def reset(self, rate: float) -> None:
        """Forgets all, and takes this learning rate."""
        super().reset(rate)
        for kept in (*self._sums, *self._waiting):
            kept.assign(tf.zeros_like(kept))

    def step(self, gradients: Sequence[tf.Tensor], reduce: Reduce, exchange: Reduce) -> None:
        """Moves the common weights."""
        del exchange
        for index, (weight, gradient) in enumerate(zip(self._weights, gradients)):
            sums = self._sums[index]
            sums.assign(self._optimizer.momentum * sums + gradient)
            if self._optimizer.sketch_of(weight) is None:
                self._optimizer.step_at(None, reduce([sums])[0], weight)
            else:
                self._step_at_the_heaviest(index, weight, reduce)
        self._optimizer.iterations.assign_add(1)

    def _step_at_the_heaviest(self, index: int, weight: tf.Variable, reduce: Reduce) -> None:
        sums, waiting = self._sums[index], self._waiting[index]
        flat = tf.reshape(waiting.assign_add(sums), [self._number, -1])
        sketch = self._optimizer.sketch_of(weight)
        count = self._optimizer.num_exchanged(sketch)
        # A sketch is linear: the mean of the tables is the table of the mean.
        table = sketch.table(tf.reduce_mean(flat, axis=0))
        candidates = sketch.heaviest(table, num_candidates(sketch, count))
        values = reduce([tf.gather(flat, candidates, axis=1)])[0]
        heaviest = tf.math.top_k(tf.abs(values), count).indices
        places = tf.gather(candidates, heaviest)
        self._optimizer.step_at(places, tf.gather(values, heaviest), weight)
        kept = tf.tensor_scatter_nd_update(
            tf.ones_like(flat[0]), places[:, None], tf.zeros_like(heaviest, flat.dtype)
        )
        for variable in (sums, waiting):
            variable.assign(variable * tf.reshape(kept, weight.shape))
