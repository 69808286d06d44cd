"""accumulate=K: one replica combines the gradients of K micro-batches as K ranks would."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives.reductions import ALL
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.steps.optimizer_parts import batches_seen
from tf_adasum.optimizers.parts import Accumulation

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


class MicroBatches(Accumulation):
    """The waiting results of one optimizer, and their combination in its graph.

    Args:
        count: the number of micro-batches K.
    """

    has_branches = True

    def __init__(self, count: int):
        self.count = count
        self._arrivals = arrivals(count)
        self._levels: list[list] = []

    @override
    def build(self, optimizer, variables, reductions):
        self._optimizer = optimizer
        self._reductions = [ALL[name] for name in reductions]
        self._levels = [
            [optimizer.add_variable_from_reference(v, f"partial_{level}") for v in variables]
            for level in range((self.count - 1).bit_length())
        ]

    @property
    @override
    def variables(self) -> list:
        return [variable for level in self._levels for variable in level]

    @override
    def leaves(self, trainable_variables, grads):
        """Dense tensors; where a mean is asked for, the K-th part, since means are added up."""
        # A LossScaleOptimizer hands on float32 for float16 variables.
        pairs = zip(grads, trainable_variables)
        dense = [tf.cast(tf.convert_to_tensor(grad), each.dtype) for grad, each in pairs]
        indices = self._indices(trainable_variables)
        divides = [self._reductions[index].divides_leaves for index in indices]
        return [grad / self.count if divide else grad for grad, divide in zip(dense, divides)]

    @override
    def add(self, strategy, trainable_variables, leaves, steps):
        number = batches_seen(self._optimizer).value % self.count
        indices = self._indices(trainable_variables)
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
        outcomes.append(functools.partial(self._step, steps, carried))
        levels = tf.constant([arrival.level for arrival in self._arrivals])
        tf.switch_case(tf.gather(levels, number), outcomes)

    def _step(self, steps, carried):
        steps.update([_per_replica(values) for values in carried])
        steps.move_average()

    def _indices(self, trainable_variables) -> list[int]:
        return [self._optimizer._get_variable_index(variable) for variable in trainable_variables]

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
