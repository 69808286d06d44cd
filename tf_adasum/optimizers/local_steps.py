"""steps_per_sync=K: K local optimizer steps between two reductions of the weights' change."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from typing_extensions import override

from tf_adasum.collectives.communicator import size
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import local_copies, native_variable
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.optimizers.changed_rows import come_as_rows
from tf_adasum.optimizers.exchanges import reduce_changes
from tf_adasum.optimizers.parts import Exchange
from tf_adasum.optimizers.put_back import copies_if, put_back_if

require_hooks(TFOptimizer, "_use_weight_decay")


StepsPerSync = int | Sequence[int] | Callable[[int], int]


def steps_of_ranks(steps_per_sync: StepsPerSync) -> int | list[int]:
    """Returns K as it is, or K of each rank where they may differ.

    Args:
        steps_per_sync: K, one for each rank, or a function of the rank.

    Raises:
        ValueError: the strategy in force has another number of ranks.
    """
    strategy = tf.distribute.get_strategy()
    is_ours = isinstance(strategy, AdasumStrategy)
    if callable(steps_per_sync):
        num_ranks = strategy.extended.communicator.size if is_ours else size()
        return [_python_int(steps_per_sync(rank)) for rank in range(num_ranks)]
    if isinstance(steps_per_sync, np.ndarray):
        steps_per_sync = steps_per_sync.tolist()
    if not isinstance(steps_per_sync, (list, tuple)):
        return _python_int(steps_per_sync)
    if is_ours and strategy.num_replicas_in_sync > 1:
        _check_one_a_rank(steps_per_sync, strategy.extended.communicator.size)
    return [_python_int(count) for count in steps_per_sync]


def _python_int(count: object) -> object:
    """For NumPy's integers, which a configuration could not hold; others as they are."""
    is_int = isinstance(count, numbers.Integral) and not isinstance(count, bool)
    return int(count) if is_int else count


def _check_one_a_rank(steps: Sequence[int], num_ranks: int) -> None:
    if len(steps) != num_ranks:
        expected = f"steps_per_sync to be one number for all, or a list of one a rank, {num_ranks}"
        advice = (
            "Pass a number for each rank, not for each replica; a model that was saved on another "
            "number of ranks load with compile=False, and compile it anew."
        )
        raise ValueError(refusal(f"{expected} in all", shown(steps), advice))


class LocalSteps(Exchange):
    """The round that an optimizer's replicas are in: its first weights and its steps so far.

    Args:
        steps: K, or K of each rank; the round then lasts for the largest.
    """

    has_branches = True
    has_own_slots = True

    def __init__(self, steps: int | list[int]):
        self._steps = steps
        self._count = steps if isinstance(steps, int) else max(steps)
        self._taken = None
        self._with_rows: set[int] = set()  # variables whose gradients came as rows
        self._in_step: list[bool] = []  # of each weight: whether the step that is traced has it

    @override
    def check(self, optimizer):
        if optimizer.use_ema:
            setting = self.sync or f"steps_per_sync={self._steps}"
            expected = f"use_ema=False with {setting}, which lets weights differ between replicas"
            received = f"use_ema=True for {optimizer.name!r}"
            advice = "Leave use_ema out, or reduce in each step."
            raise ValueError(refusal(expected, received, advice))

    @override
    def build(self, optimizer, variables):
        self._optimizer = optimizer
        self._weights = list(variables)
        self._start = [optimizer.add_variable_from_reference(v, "round_start") for v in variables]
        self._taken = optimizer.add_variable(
            (), dtype="int", aggregation="only_first_replica", name="steps_since_sync"
        )
        # Of each weight, whether no step of the round had it. No file holds that: in a round that
        # is resumed all count as had.
        self._are_left_alone = make_plain_zeros([len(self._weights)], "bool")

    @property
    @override
    def steps_per_exchange(self) -> int | None:
        return self._count

    @property
    @override
    def steps_taken(self) -> int:
        return 0 if self._taken is None else int(self._taken.numpy())

    @override
    def get_config(self) -> dict:
        return {"mode": "delta", "steps_per_sync": self._steps}

    @override
    def around_step(self, strategy, step):
        """The K-th call ends the round; a rank with fewer steps takes them in its first calls."""
        # Weights that were loaded or set since the last round count as its start.
        tf.cond(tf.equal(self._taken.value, 0), lambda: self._begin(strategy), lambda: None)
        step()
        self._taken.assign_add(1)
        ended = self._taken.value >= self._count  # more where a smaller K goes on from a backup
        tf.cond(ended, lambda: self._end(strategy), lambda: self._between(strategy))

    def _between(self, strategy) -> None:
        """What replicas exchange behind a step that ends no round: nothing."""
        del strategy  # AutoGraph warns of a function of which only the docstring is there

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        rows = zip(variables, come_as_rows(strategy, grads))
        self._with_rows.update(id(variable) for variable, has_rows in rows if has_rows)
        self._note_part(variables)
        self._decay_start(strategy, variables)
        own_steps = self._own_steps(strategy)
        if own_steps == self._count:
            self._update(grads, variables, update, idle)
            return
        tf.cond(
            self._taken.value < own_steps,
            lambda: self._update(grads, variables, update, idle),
            lambda: None,  # other ranks go on; weights and slots stay
        )

    def _note_part(self, variables) -> None:
        stepped = {id(variable) for variable in variables}
        self._in_step = [id(weight) in stepped for _, weight in self._pairs()]
        others = tf.logical_not(tf.constant(self._in_step))
        self._are_left_alone.assign(tf.logical_and(self._are_left_alone, others))

    def _own_steps(self, strategy) -> int:
        if isinstance(self._steps, int):
            return self._steps
        communicator = strategy.extended.communicator
        _check_one_a_rank(self._steps, communicator.size)
        return self._steps[communicator.rank]

    def _update(self, grads, variables, update, idle) -> None:
        if idle is None:
            update(grads)
            return
        weights = zip(*map(local_copies, variables))  # of each replica
        kept = [(*each, copies_if(*each)) for each in zip(idle, weights)]
        update(grads)
        for each in kept:
            put_back_if(*each)

    @override
    def synchronize(self, strategy):
        if self.steps_taken > 0:
            self._end(strategy)

    def _begin(self, strategy):
        for start, weight in self._pairs():
            strategy.extended.update(start, _assign, args=(weight,), group=False)
        self._are_left_alone.assign(tf.ones_like(self._are_left_alone))

    def _end(self, strategy):
        """Lets all meet; of layers that are frozen nothing travels.

        Their change is zero, but what an encoding kept back of earlier rounds would move them.
        """
        if tf.executing_eagerly():
            self._meet_at(strategy, np.flatnonzero(~self._are_left_alone.numpy()))
        else:
            has_part = np.array(self._in_step)
            self._meet_at(strategy, np.flatnonzero(has_part))
            others = np.flatnonzero(~has_part)
            if len(others):  # another step of the round, of other variables, may have had them
                tf.cond(
                    tf.reduce_all(tf.gather(self._are_left_alone, others)),
                    lambda: None,
                    lambda: self._meet_at(strategy, others),
                )
        self._taken.assign(0)

    def _meet_at(self, strategy, places: Sequence[int]) -> None:
        if len(places):
            pairs = list(self._pairs())
            self._meet(strategy, *zip(*[pairs[place] for place in places]))

    def _meet(self, strategy, starts: Sequence, weights: Sequence) -> None:
        """Sets weights, of which `starts` began the round, to what all replicas make of them."""
        have_rows = [id(weight) in self._with_rows for weight in weights]
        with self.asking(strategy):
            reduce_changes(strategy, weights, starts, self.travels_as_rows(weights, have_rows))

    def _decay_start(self, strategy, variables):
        """Keeps weight decay out of the change, where it could count once for every replica.

        Of the variables of the step alone: those without a gradient have not decayed.
        """
        optimizer = self._optimizer
        if optimizer.weight_decay is None:
            return

        def decay(start):
            rate = tf.cast(optimizer.learning_rate, start.dtype)
            start.assign_sub(start * tf.cast(optimizer.weight_decay, start.dtype) * rate)

        stepped = {id(variable) for variable in variables}
        for start, weight in self._pairs():
            if id(weight) in stepped and optimizer._use_weight_decay(weight):
                strategy.extended.update(start, decay, group=False)

    def _pairs(self):
        for start, weight in zip(self._start, self._weights):
            yield start.value, native_variable(weight)


def _assign(start: tf.Variable, weight: tf.Variable) -> None:
    start.assign(weight)
