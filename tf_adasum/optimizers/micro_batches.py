"""accumulate=K: one replica combines the gradients of K micro-batches as K ranks would."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values

from tf_adasum.collectives.reductions import ALL
from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(tf_values, "PerReplica")


class Arrival(NamedTuple):
    """What happens to the gradients of a micro-batch.

    Attributes:
        merges: the levels whose waiting results they are combined with, one after the other.
        level: where the outcome waits; the number of levels if it is the result of all.
    """

    merges: tuple[int, ...]
    level: int


def arrivals(count: int) -> list[Arrival]:
    """Plans the tree of `count` leaves with ceil(log2(count)) waiting results: a binary counter.

    With p the largest power of two <= count and F = count - p, the tree first folds leaf p + i
    into leaf i for i < F. Micro-batches become leaves in the order

        0, p, 1, p + 1, .., F - 1, p + F - 1, F, F + 1, .., p - 1

    so that only one of them ever waits to be folded, in level 0. Then leaf i meets waiting
    results as adding one to the counter i carries over ones.

    Args:
        count: the number of micro-batches K >= 1.

    Returns:
        One `Arrival` for each of them, in the order of time.

    Example:
        >>> from tf_adasum.optimizers.micro_batches import arrivals
        >>> [tuple(arrival) for arrival in arrivals(4)]
        [((), 0), ((0,), 1), ((), 0), ((0, 1), 2)]

    Source: docs/architecture.md, section 2, for the tree.
    """
    power = 1 << (count.bit_length() - 1)
    folded = count - power
    plan = []
    for index in range(count):
        folds = index < 2 * folded
        if folds and index % 2 == 0:
            plan.append(Arrival((), 0))
            continue
        leaf = index // 2 if folds else index - folded
        level = first = 1 if folded else 0
        while leaf >> (level - first) & 1:
            level += 1
        plan.append(Arrival((0,) * folds + tuple(range(first, level)), level))
    return plan


class MicroBatches:
    """The waiting results of one optimizer, and their combination in its graph.

    Args:
        optimizer: the Keras optimizer that owns the variables in which results wait, so that
            they are saved and restored with it.
        variables: its trainable variables.
        reductions: name of the reduction of each.
        count: the number of micro-batches K.
    """

    def __init__(self, optimizer, variables: Sequence, reductions: Sequence[str], count: int):
        self.count = count
        self._arrivals = arrivals(count)
        self._reductions = [ALL[name] for name in reductions]
        self._levels = [
            [optimizer.add_variable_from_reference(v, f"partial_{level}") for v in variables]
            for level in range((count - 1).bit_length())
        ]

    @property
    def variables(self) -> list:
        """Where results wait: each replica's own."""
        return [variable for level in self._levels for variable in level]

    def leaves(self, indices: Sequence[int], grads: Sequence) -> list[tf.Tensor]:
        """Returns what one replica adds for one micro-batch; called in its replica context.

        Args:
            indices: for each gradient the index of its variable.
            grads: tensors or `tf.IndexedSlices`.

        Returns:
            Dense tensors; where a mean is asked for, the K-th part, since means are added up.
        """
        dense = [tf.convert_to_tensor(grad) for grad in grads]
        divides = [self._reductions[index].divides_leaves for index in indices]
        return [grad / self.count if divide else grad for grad, divide in zip(dense, divides)]

    def add(
        self,
        strategy: tf.distribute.Strategy,
        number: tf.Tensor,
        indices: Sequence[int],
        leaves: Sequence,
        step: Callable[[list], None],
    ) -> None:
        """Takes one micro-batch of all replicas; after the last one, calls `step`.

        Called in cross-replica context, so that `step` may let the replicas meet.

        Args:
            strategy: the strategy in force.
            number: of the micro-batch, an integer scalar in [0, K).
            indices: for each gradient the index of its variable.
            leaves: what `leaves` returned, per replica.
            step: takes the combined gradients, per replica and in the same order.
        """
        carried = [list(strategy.experimental_local_results(leaf)) for leaf in leaves]
        for level in range(len(self._levels)):
            merges = tf.constant([level in arrival.merges for arrival in self._arrivals])
            carried = tf.cond(
                tf.gather(merges, number),
                functools.partial(self._merged, strategy, level, indices, carried),
                functools.partial(list, carried),
            )
        outcomes = [
            functools.partial(self._store, strategy, level, indices, carried)
            for level in range(len(self._levels))
        ]
        outcomes.append(lambda: step([_per_replica(values) for values in carried]))
        levels = tf.constant([arrival.level for arrival in self._arrivals])
        tf.switch_case(tf.gather(levels, number), outcomes)

    def _merged(self, strategy, level, indices, carried):
        return [
            self._update(strategy, level, index, self._reductions[index].combine_pair, values)
            for index, values in zip(indices, carried)
        ]

    def _store(self, strategy, level, indices, carried):
        for index, values in zip(indices, carried):
            self._update(strategy, level, index, _assign, values)

    def _update(self, strategy, level, index, function, values) -> list:
        """Calls `function(waiting, value)` on the device of each local replica."""
        waiting = self._levels[level][index].value
        args = (_per_replica(values),)
        return list(strategy.extended.update(waiting, function, args=args, group=False))


def _assign(waiting: tf.Variable, value: tf.Tensor) -> None:
    waiting.assign(value)


def _per_replica(values: Sequence[tf.Tensor]):
    # A strategy without replicas would not unpack a container of one.
    return tf_values.PerReplica(values) if len(values) > 1 else values[0]
