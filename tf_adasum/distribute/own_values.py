"""Says so where a layer's own variables differ between replicas when `fit` ends.

A layer may assign to a variable without an aggregation, a moving mean say, which each replica does
by what its own rows are. Whether a mean, a sum or one replica's value stands for all only the
layer's author knows, so none is taken: a prediction depends on the replica that makes it.
"""

from __future__ import annotations

import logging
import weakref

import keras

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.digests import digest, gather_digests
from tf_adasum.distribute.variables import local_copies, native_variable
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.variables.made_to_train import made_to_train

require_hooks(keras.Model, "_flatten_layers")

_log = logging.getLogger("tf_adasum")
# Statistics that meet at the end of an epoch, and states that follow a replica's own sequences.
_MEANT = (keras.layers.BatchNormalization, keras.layers.RNN)


class OwnValues:
    """Compares across the replicas of a strategy what they assign to by themselves.

    Args:
        communicator: the `Communicator` of the strategy.
        numbers: of the replicas.
    """

    def __init__(self, communicator: Communicator, numbers: ReplicaNumbers):
        self._communicator, self._numbers = communicator, numbers
        self._told: weakref.WeakSet[keras.Model] = weakref.WeakSet()

    def compare(self, model: keras.Model) -> None:
        """Logs on rank 0, once a model, which variables differ; collective.

        One message, where a model has such variables; none where it has not.
        """
        variables = _own_variables(model)
        if self._numbers.total == 1 or not variables or model in self._told:
            return
        row = []
        for variable in variables:
            own = [digest(copy) for copy in local_copies(native_variable(variable))]
            row += [own[0], len(set(own)) > 1]
        table = gather_digests(row, self._communicator, "variables without an aggregation")
        of_ranks, in_ranks = table[:, ::2], table[:, 1::2]
        differ = (of_ranks != of_ranks[0]).any(axis=0) | in_ranks.any(axis=0)
        paths = [variable.path for variable, differs in zip(variables, differ) if differs]
        if paths:
            self._told.add(model)
            self._tell(paths)

    def _tell(self, paths: list[str]) -> None:
        if self._communicator.rank:
            return
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        _log.warning(
            "fit ends: replicas hold unlike values of %r%s, assigned without an aggregation: a "
            "prediction depends on the replica that makes it, and those of rank 0's first replica "
            'are saved. Make it by add_weight(..., aggregation="mean"), or call '
            "tf_adasum.broadcast_variables(model) after fit.",
            *(paths[0], more),
        )


def _own_variables(model: keras.Model) -> list[keras.Variable]:
    meant = [each for each in model._flatten_layers() if isinstance(each, _MEANT)]
    others = {id(each) for layer in meant for each in layer.variables}
    others |= {id(each) for each in made_to_train(model)}  # which `EqualWeights` compares
    return [
        each
        for each in model.non_trainable_weights
        if id(each) not in others
        and each.aggregation in (None, "none")
        and each.dtype != "string"  # which has no mean, and no message brings it to other ranks
    ]
