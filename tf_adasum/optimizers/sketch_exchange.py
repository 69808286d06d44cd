"""What replicas of Sketched SGD exchange: sketches, and then the values at the heaviest places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives import names
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.compression.count_sketch import CountSketch
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.optimizers.exchanges import local_results
from tf_adasum.optimizers.parts import Exchange
from tf_adasum.optimizers.plan_checks import check_flat

require_hooks(tf_values, "PerReplica")

# Estimates are wrong where heavy values meet in a table: so many times the places are looked at.
_CANDIDATES = 4


def num_candidates(sketch: CountSketch, num_exchanged: int) -> int:
    """Returns how many places are looked at for so many that are exchanged."""
    return min(_CANDIDATES * num_exchanged, sketch.num_elements)


class SketchingOptimizer(Protocol):
    """What the exchange asks of the optimizer; of one variable of one replica."""

    name: str

    def sketch_of(self, variable: tf.Variable) -> CountSketch | None:
        """Returns how the heaviest values of a variable are found; None: all of it is exchanged."""

    def num_exchanged(self, sketch: CountSketch) -> int:
        """Returns how many values of a variable are exchanged."""

    def accumulate(self, gradient: Any, variable: tf.Variable) -> tf.Tensor:
        """Adds the replica's gradient up, and returns what waits to be exchanged."""

    def step_at(self, places: tf.Tensor | None, values: tf.Tensor, variable: tf.Variable) -> None:
        """Moves the variable by the values of all replicas at places; None: at all."""


class SketchExchange(Exchange):
    """Two rounds a step: the tables of all variables, then their values.

    Args:
        reduction: "mean" or "adasum", of the values; tables add up.
    """

    has_own_slots = True

    def __init__(self, reduction: str):
        self.reduction = reduction

    @override
    def check_plan(self, rows, local_reduction):
        check_flat(f"SketchedSGD(reduction={self.reduction!r})", rows, local_reduction)

    @override
    def build(self, optimizer: SketchingOptimizer, variables):
        self._optimizer = optimizer

    @override
    def around_update(self, strategy, grads, variables, update, idle):
        del update, idle  # gradients of idle replicas are zero
        grads = self._weighed(strategy, grads)
        optimizer = self._optimizer

        def accumulate(variable, grad):
            return optimizer.accumulate(grad, variable)

        def step(variable, places, values):
            optimizer.step_at(places, values, variable)

        waiting = [
            local_results(strategy, accumulate, variable, grad).values
            for variable, grad in zip(variables, grads)
        ]
        sketches = [optimizer.sketch_of(variable) for variable in variables]
        candidates = self._candidates(strategy, sketches, waiting)
        values = self._values(strategy, candidates, waiting)
        for variable, sketch, of_variable in zip(variables, sketches, zip(candidates, values)):
            chosen = of_variable if sketch is None else self._heaviest(sketch, *of_variable)
            strategy.extended.update(variable, step, args=chosen, group=False)

    def _weighed(self, strategy, grads: Sequence) -> Sequence:
        """The gradients, by their rows: what waits is of batches that were dealt unlike."""
        share = strategy.extended.batch_share
        if share is None:
            return grads
        leaves = list(zip(*map(strategy.experimental_local_results, grads)))
        share.computed(leaves)
        weighed = share.weighed(leaves, self.reduction, self._name("gradients"))
        return [tf_values.PerReplica(list(values)) for values in zip(*weighed)]

    def _candidates(self, strategy, sketches: Sequence, waiting: Sequence) -> list:
        """The places of each variable that may be heavy; None where all of it is exchanged."""
        tables = [
            [sketch.table(value) for value in of_replicas]
            for sketch, of_replicas in zip(sketches, waiting)
            if sketch is not None
        ]
        merged = iter(self._reduced(strategy, tables, "mean", "sketches") if tables else [])
        return [
            None if sketch is None else self._candidates_of(sketch, next(merged))
            for sketch in sketches
        ]

    def _candidates_of(self, sketch: CountSketch, table: tf.Tensor) -> tf.Tensor:
        return sketch.heaviest(table, num_candidates(sketch, self._optimizer.num_exchanged(sketch)))

    def _heaviest(
        self, sketch: CountSketch, candidates: tf.Tensor, values: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Places and values of those that are exchanged, by what is known of them now."""
        count = self._optimizer.num_exchanged(sketch)
        heaviest = tf.math.top_k(tf.abs(values), count).indices
        return tf.gather(candidates, heaviest), tf.gather(values, heaviest)

    def _values(self, strategy, places: Sequence, waiting: Sequence) -> list[tf.Tensor]:
        values = [
            [
                value if at is None else tf.gather(tf.reshape(value, [-1]), at)
                for value in of_replicas
            ]
            for at, of_replicas in zip(places, waiting)
        ]
        return self._reduced(strategy, values, self.reduction, "values")

    def _reduced(self, strategy, of_variables, reduction: str, what: str) -> list[tf.Tensor]:
        """Reduces tensors, a list of each variable's local replicas."""
        leaves, extended = list(zip(*of_variables)), strategy.extended
        counts, name = extended.numbers.for_ops, self._name(what)
        return allreduce_replicas(
            leaves, reduction, extended.communicator, name, replica_counts=counts
        )

    def _name(self, what: str) -> str:
        # Keras numbers the optimizers of a process, of which one rank may have made more.
        return f"{names.without_counters(self._optimizer.name)}/{what}"
