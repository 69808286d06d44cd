"""What `wrap` composes: when an optimizer steps, and what its replicas exchange.

Each choice is an object with the same methods: make its variables, act in the step, describe
itself in the configuration. The bases are the choices that add nothing. A part belongs to one
optimizer, which owns the part's variables, so that they are saved and restored with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.distribute.asked import Encoding, Measure
from tf_adasum.distribute.policy import PlanRow
from tf_adasum.optimizers.tallies import Lateness, LeftOut, Uploads


class Accumulation:
    """When an optimizer steps; this one steps at every call, with the call's gradients.

    Attributes:
        count: calls of `apply` per step, as `iterations` counts them.
        has_branches: whether some calls do what others don't; they run in cross-replica context.
    """

    count = 1
    has_branches = False

    def build(self, optimizer, variables: Sequence, reductions: Sequence[str]) -> None:
        """Makes its variables.

        Args:
            optimizer: the Keras optimizer.
            variables: its trainable variables.
            reductions: name of the reduction of each.
        """

    @property
    def variables(self) -> list:
        """Those of its variables in which each replica has values of its own."""
        return []

    def leaves(self, trainable_variables: Sequence, grads: Sequence) -> list:
        """Returns what one replica adds in one call; in its replica context.

        Args:
            trainable_variables: the variables of the call.
            grads: the gradient of each, tensors or `tf.IndexedSlices`.
        """
        del trainable_variables
        return list(grads)

    def add(
        self,
        strategy: tf.distribute.Strategy,
        trainable_variables: Sequence,
        leaves: Sequence,
        steps: Any,
    ) -> None:
        """Takes what all replicas add in one call, in cross-replica context.

        Args:
            strategy: the strategy in force.
            trainable_variables: the variables of the call.
            leaves: what `leaves` returned, per replica.
            steps: the optimizer's `KerasSteps`, which the part takes when it is time.
        """
        del strategy, trainable_variables
        steps.update(leaves)
        steps.move_average()

    def get_config(self) -> dict[str, Any]:
        """Its settings, by the names of `wrap`'s arguments."""
        return {"accumulate": self.count}


class Lacking:
    """What becomes of variables without a gradient; as in Keras, this one leaves them out.

    Attributes:
        has_branches: as of `Exchange`.
    """

    has_branches = False

    def note_slot(self, reference: Any, slot: Any) -> None:
        """Is told of a variable that the optimizer keeps beside one that it trains."""

    def completed(
        self, optimizer, grads: Sequence, variables: Sequence
    ) -> tuple[list, list] | None:
        """Returns gradients without None, and the variable of each; in a replica context.

        None: Keras leaves out variables without a gradient.
        """
        del optimizer, grads, variables
        return None

    def marks(self, variables: Sequence) -> tf.Tensor | None:
        """Returns which of the completed gradients the replica has itself; None: all."""
        del variables
        return None

    def around(
        self,
        strategy: tf.distribute.Strategy,
        variables: Sequence,
        marks: Any,
        step: Callable[[], None],
    ) -> None:
        """Takes a step of all replicas, in cross-replica context.

        Args:
            strategy: the strategy in force.
            variables: the completed ones.
            marks: what `marks` returned, per replica.
            step: to be called.
        """
        del strategy, variables, marks
        step()

    def get_config(self) -> dict[str, Any]:
        """Its settings, by the names of `wrap`'s arguments."""
        return {}


class Exchange:
    """What replicas exchange, and when; this one exchanges nothing.

    Attributes:
        has_branches: whether some steps do what others don't; they run in cross-replica context.
        has_own_slots: whether the optimizer's slots are each replica's own.
        waits_for_others: whether each step waits for all ranks.
        steps_taken: steps since the last exchange, read eagerly.
        measure: is told, where a step is traced, what Adasum keeps of what is exchanged; None if
            nobody asks. All ranks ask alike.
        encoding: how what is exchanged travels; None: as it is.
        reduction: of all variables, in the place of what the rules say; None: as the rules say.
        sync: `wrap`'s argument of that name, which it was made by.
        steps_per_exchange: after how many steps replicas meet; None if that changes.
    """

    has_branches = False
    has_own_slots = False
    waits_for_others = True
    steps_taken = 0
    measure: Measure | None = None
    encoding: Encoding | None = None
    reduction: str | None = None
    sync: Any = None
    steps_per_exchange: int | None = 1

    @property
    def lateness(self) -> Lateness:
        """Of this rank's steps so far, read eagerly."""
        return Lateness(0, 0)

    @property
    def uploads(self) -> Uploads | None:
        """Of this rank's steps so far, read eagerly; None where all upload in each step."""
        return None

    @property
    def left_out(self) -> LeftOut:
        """Of the steps of this process so far, read eagerly; the same on all ranks."""
        return LeftOut(0, 0.0, 0.0)

    @property
    def residuals(self) -> list:
        """What has not been exchanged yet of what each replica had; as `Residual` has it."""
        return [] if self.encoding is None else self.encoding.variables

    def earlier_weights(self, weights: Sequence) -> list[tf.Tensor] | None:
        """Returns values for a model's weights, at which its step also finds gradients; or None.

        In a replica's context, before the step.
        """
        del weights
        return None

    def take_earlier_gradients(self, replica: int, weights: Sequence, gradients: Sequence) -> None:
        """Is handed the gradients at these values, of a local replica's batch."""

    def begin(self) -> None:
        """Is told that `fit` begins, on all ranks, before any of them takes a step."""

    def asking(self, strategy: tf.distribute.Strategy) -> contextlib.AbstractContextManager:
        """Inside, what is exchanged is measured, and travels, as it is asked for."""
        return strategy.extended.asking(measure=self.measure, encoding=self.encoding)

    def travels_as_rows(self, variables: Sequence, have_rows: Sequence[bool]) -> list[bool]:
        """Returns of which changes rows travel, where gradients that came as rows allow it.

        What is measured travels whole, and so does what travels encoded.
        """
        return [
            has_rows and self.measure is None and not self._is_encoded(variable)
            for variable, has_rows in zip(variables, have_rows)
        ]

    def _is_encoded(self, variable: tf.Variable) -> bool:
        return self.encoding is not None and self.encoding.compression_of(variable) is not None

    def check(self, optimizer) -> None:
        """Raises ValueError for an optimizer that it does not go with."""

    def check_plan(self, rows: Sequence[PlanRow], local_reduction: str) -> None:
        """Raises ValueError for what it can't do between replicas, before anything is sent.

        Args:
            rows: the optimizer's trainable variables, with the reductions that they get.
            local_reduction: of the strategy.
        """
        if self.encoding is not None:
            self.encoding.check_plan(rows, local_reduction)

    def build(self, optimizer, variables: Sequence) -> None:
        """Makes its variables, for the optimizer's trainable variables."""

    def around_step(self, strategy: tf.distribute.Strategy, step: Callable[[], None]) -> None:
        """Takes a step (clipping, weight decay, update) of all replicas, in cross-replica context.

        Only an exchange with branches is asked.
        """
        del strategy
        step()

    def around_update(
        self,
        strategy: tf.distribute.Strategy,
        grads: Sequence,
        variables: Sequence[tf.Variable],
        update: Callable[[Sequence], None],
        idle: Sequence[tf.Tensor] | None,
    ) -> None:
        """Updates the variables of all replicas by the optimizer's rule, in cross-replica context.

        Args:
            strategy: the `AdasumStrategy` in force.
            grads: gradients per replica, clipped.
            variables: the variable of each.
            update: applies the optimizer's rule on every replica to the gradients it is given.
            idle: whether each local replica has no rows, so that its variables don't change;
                None if all have.
        """
        del strategy, variables, idle
        update(grads)

    def take_change(self, variable: Any, value: Any, is_minus: bool) -> bool:
        """Is handed what the optimizer would add to a variable; returns False to let it.

        Args:
            variable: a replica's variable, or one of its slots.
            value: the operand.
            is_minus: whether the variable becomes less by it.
        """
        del variable, value, is_minus
        return False

    def synchronize(self, strategy: tf.distribute.Strategy) -> None:
        """Exchanges early what waits; eager, in cross-replica context, on all ranks alike."""

    def get_config(self) -> dict[str, Any]:
        """Its settings, by the names of `wrap`'s arguments."""
        return {}


@dataclasses.dataclass(frozen=True)
class Parts:
    """What an optimizer was wrapped with.

    Attributes:
        accumulation: when it steps.
        exchange: what its replicas exchange.
        lacking: what becomes of variables without a gradient.
    """

    accumulation: Accumulation
    exchange: Exchange
    lacking: Lacking = dataclasses.field(default_factory=Lacking)

    def get_config(self) -> dict[str, Any]:
        """The settings of all."""
        parts = self.accumulation, self.exchange, self.lacking
        return {name: value for part in parts for name, value in part.get_config().items()}
