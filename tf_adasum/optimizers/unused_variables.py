"""wrap(unused_variables=True): variables that some replicas have no gradient for, in some steps."""

from __future__ import annotations

from collections import defaultdict

import keras
import tensorflow as tf
from typing_extensions import override

from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.distribute.variables import local_copies, native_variable
from tf_adasum.keras_hooks.core.guard import require_reads
from tf_adasum.keras_hooks.core.replicas import local_replica
from tf_adasum.optimizers.parts import Lacking
from tf_adasum.optimizers.put_back import copies_if, put_back_if

require_reads(
    keras.optimizers.Optimizer,
    "_update_model_variables_moving_average",
    "_model_variables_moving_average",
)

_NAME = "which variables have gradients"


class ZeroGradients(Lacking):
    """A gradient that a replica lacks counts as zero; without any, the variable stays.

    Which gradients are there is known where a step is traced, on each replica by itself, and ranks
    may run unlike steps at the same time. So every step exchanges all variables of the optimizer,
    and, in a message of a few bytes, which of them have a gradient anywhere.
    """

    has_branches = True

    def __init__(self):
        self._slots: dict[int, list] = defaultdict(list)
        self._averages: list = []
        # Of the step that is traced, by local replica: the places of variables without a gradient.
        self._lacking: dict[int, set[int]] = {}

    @override
    def note_slot(self, reference, slot):
        self._slots[id(native_variable(reference))].append(slot)

    @override
    def completed(self, optimizer, grads, variables):
        found: list = [None] * len(optimizer._trainable_variables)
        for grad, variable in zip(grads, variables):
            if grad is not None:
                # Rows become dense: a rank that lacks them can't know that others have rows.
                found[optimizer._get_variable_index(variable)] = tf.convert_to_tensor(grad)
        if optimizer.use_ema:
            # Averages of weights move in each step, as in Keras, also of those that stay.
            self._averages = optimizer._model_variables_moving_average
        replica = local_replica(tf.distribute.get_replica_context())
        self._lacking[replica] = {i for i, grad in enumerate(found) if grad is None}
        filled = [
            tf.zeros_like(native_variable(variable)) if grad is None else grad
            for grad, variable in zip(found, optimizer._trainable_variables)
        ]
        return filled, list(optimizer._trainable_variables)

    @override
    def marks(self, variables):
        lacking = self._lacking[local_replica(tf.distribute.get_replica_context())]
        return tf.constant([index not in lacking for index in range(len(variables))], tf.int32)

    @override
    def around(self, strategy, variables, marks, step):
        lacking = sorted(set().union(*self._lacking.values()))
        own = [[each] for each in strategy.experimental_local_results(marks)]
        extended = strategy.extended
        (found,) = allreduce_replicas(
            own, "max", extended.communicator, _NAME, replica_counts=extended.numbers.for_ops
        )
        staying = [(found[i] == 0, self._with_slots(variables[i])) for i in lacking]
        kept = [(*each, copies_if(*each)) for each in staying]
        step()
        for each in kept:
            put_back_if(*each)

    def _with_slots(self, variable: keras.Variable) -> list[tf.Variable]:
        """The values of a variable and of its slots, of all local replicas."""
        native = native_variable(variable)
        averages = set(map(id, self._averages))
        slots = [slot for slot in self._slots[id(native)] if id(slot) not in averages]
        distributed = [native, *map(native_variable, slots)]
        return [copy for each in distributed for copy in local_copies(each)]

    @override
    def get_config(self):
        return {"unused_variables": True}
