"""What replicas exchange in groups that change, between the steps in which all meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.partial_allreduce import PartialAllreduce
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of
from tf_adasum.optimizers.exchanges import local_results
from tf_adasum.optimizers.local_steps import LocalSteps
from tf_adasum.optimizers.own_replicas import OwnReplicas
from tf_adasum.optimizers.plan_checks import check_flat, check_reductions
from tf_adasum.optimizers.tallies import Lateness

require_hooks(tf_values, "PerReplica")

_REDUCTIONS = ("adasum", "mean")


class GroupExchange(LocalSteps):
    """Rounds of local steps, each with an exchange in this rank's group behind it.

    Args:
        group_size: ranks in a group.
        sync_every: steps of a round.
        waits: whether each exchange waits for all ranks.
    """

    def __init__(self, group_size: int, sync_every: int, waits: bool):
        super().__init__(sync_every)
        self._group_size = group_size
        self.waits_for_others = waits
        # By the communicator in force: advice on a training looks at parts of the ranks.
        self._groups: dict[Communicator, _Groups] = {}
        self._own_replicas = OwnReplicas()
        self._lateness = None

    @override
    def check_plan(self, rows, local_reduction):
        why = "where what ranks share counts once"
        check_reductions("GroupAveraging", rows, _REDUCTIONS, why)
        # All that meet in the last step of a round would heed it, the groups before it not.
        check_flat("sync=GroupAveraging", rows, local_reduction)
        super().check_plan(rows, local_reduction)

    @override
    def build(self, optimizer, variables):
        super().build(optimizer, variables)
        # Steps that came late, and by how many rounds the latest did.
        self._lateness = make_plain_zeros([2], "int64")

    @override
    def get_config(self) -> dict:
        return {"mode": "delta", "steps_per_sync": 1}

    @property
    @override
    def lateness(self) -> Lateness:
        if self._lateness is None:
            return super().lateness
        return Lateness(*map(int, self._lateness.numpy()))

    @override
    def begin(self):
        self._restart()
        self._agree_on_steps()

    def _restart(self) -> None:
        for groups in self._groups.values():
            groups.reset(restarts=True)

    def _agree_on_steps(self) -> None:
        """Begins a new round where ranks are at unlike steps of one, as after an exception."""
        strategy = strategy_of(self._optimizer) if self._taken is not None else None
        if not isinstance(strategy, AdasumStrategy):
            return
        steps = np.array([self.steps_taken, -self.steps_taken], np.int64)
        name = "steps since all met"
        strategy.extended.communicator.allreduce_arrays([steps], "max", name)
        if steps[0] != -steps[1]:
            with strategy.scope():
                self._taken.assign(0)

    @override
    def synchronize(self, strategy):
        if self.steps_taken > 0:
            self._restart()  # nobody takes part in rounds until all call again
        super().synchronize(strategy)

    @override
    def _between(self, strategy):
        starts, weights = zip(*self._pairs())
        reductions = self._reductions(strategy)
        groups = self._groups_of(strategy)
        own = [
            self._of_rank(strategy, local_results(strategy, _change, weight, start), reduction)
            for weight, start, reduction in zip(weights, starts, reductions)
        ]
        turn = self._turn() if self.waits_for_others else None
        changes, num_behind = groups.reduce(own, reductions, turn)
        self._note(num_behind)
        for weight, start, change in zip(weights, starts, changes):
            strategy.extended.update(weight, _set_to, args=(start, change), group=False)

    def _turn(self) -> tf.Tensor:
        """How many exchanges in groups there were before this one, if all rounds ended by K steps.

        Of what is saved with the optimizer alone, so that a training that resumes meets the same
        groups as one that was not interrupted.
        """
        in_round = tf.cast(self._taken.value, tf.int64) - 1  # this step counts already
        iterations = tf.cast(self._optimizer.iterations, tf.int64)
        first = tf.maximum(iterations - in_round, 0)  # or somebody has set them to zero meanwhile
        return first * (self._count - 1) // self._count + in_round

    def _of_rank(self, strategy, changes: tf_values.PerReplica, reduction: str) -> tf.Tensor:
        leaves = [[change] for change in changes.values]
        return self._own_replicas.reduce(leaves, reduction, strategy.extended)[0]

    def _note(self, num_behind: tf.Tensor) -> None:
        late, most = tf.unstack(self._lateness)
        is_late = tf.cast(num_behind > 0, tf.int64)
        self._lateness.assign(tf.stack([late + is_late, tf.maximum(most, num_behind)]))

    @override
    def _end(self, strategy):
        # Before all meet: as soon as they have, a rank may begin the next round of groups, in which
        # this one's change since they met is zero.
        with tf.control_dependencies(self._groups_of(strategy).reset()):
            super()._end(strategy)

    def _reductions(self, strategy) -> list[str]:
        return [str(row.reduction) for row in strategy.register_variables(self._weights)]

    def _groups_of(self, strategy: AdasumStrategy) -> _Groups:
        communicator = strategy.extended.communicator
        if communicator not in self._groups:
            of_dtype = {
                dtype: PartialAllreduce(
                    communicator,
                    f"groups' changes of {dtype}",
                    self._group_size,
                )
                for dtype in dict.fromkeys(tf.as_dtype(each.dtype).name for each in self._weights)
            }
            self._groups[communicator] = _Groups(of_dtype)
        return self._groups[communicator]


class _Groups:
    """The rounds of one communicator's ranks.

    Args:
        of_dtype: the rounds of tensors of each dtype.
    """

    def __init__(self, of_dtype: dict[str, PartialAllreduce]):
        self._of_dtype = of_dtype

    def reduce(
        self, tensors: Sequence[tf.Tensor], reductions: Sequence[str], turn: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """As `PartialAllreduce.reduce`, with the most that any dtype's round was behind."""
        reduced: list = [None] * len(tensors)
        behind = []
        dtypes = [tensor.dtype.name for tensor in tensors]
        for dtype in dict.fromkeys(dtypes):
            chosen = [index for index, each in enumerate(dtypes) if each == dtype]
            results, num_behind = self._of_dtype[dtype].reduce(
                [tensors[index] for index in chosen],
                [reductions[index] for index in chosen],
                turn,
            )
            for index, result in zip(chosen, results):
                reduced[index] = result
            behind.append(num_behind)
        return reduced, tf.reduce_max(tf.stack(behind))

    def reset(self, restarts: bool = False) -> list[tf.Operation]:
        """As `PartialAllreduce.reset`."""
        resets = [groups.reset(restarts) for groups in self._of_dtype.values()]
        return [reset for reset in resets if reset is not None]  # eager ones are done


def _change(weight, start):
    return weight - start


def _set_to(weight, start, change):
    weight.assign(start + tf.cast(change, start.dtype))
