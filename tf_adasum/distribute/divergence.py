"""Weights that drift apart while a training runs are found: `AdasumStrategy(check_every=K)`.

Equal bits in and equal operations give equal bits out. A replica that differs has had a fault of
its memory or its processor, or a program that assigns to its weights by itself; the training
would go on with a mean of models.
"""

from __future__ import annotations

import collections

import keras
import numpy as np

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.digests import (
    digest,
    digest_of_all,
    gather_digests,
    variables_that_agree,
)
from tf_adasum.distribute.own_variables import steps_taken
from tf_adasum.distribute.variables import local_copies, native_variable
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of


class DivergenceCheck:
    """Compares the replicas of all ranks after every K steps of `fit`.

    It reads the weights once, and sends 8 bytes a local replica.

    Args:
        communicator: the `Communicator` of the strategy.
        check_every: K, an int >= 0; 0 compares nothing.
        numbers: of the replicas.
    """

    def __init__(self, communicator: Communicator, check_every: int, numbers: ReplicaNumbers):
        self._communicator, self._numbers = communicator, numbers
        self.check_every = check_every
        self._num_steps = 0

    def count_steps(self, model: keras.Model) -> None:
        """Counts the steps of one call of the train function, and compares where it is time.

        Within a round of `steps_per_sync`, where weights differ by design, it waits for its end.

        Raises:
            RuntimeError: on all ranks, if any replica's bits are not those of the others.
        """
        if not self.check_every:
            return
        # Counted here and not by the optimizer: all ranks must compare after the same call.
        self._num_steps += int(model.steps_per_execution)
        if self._num_steps >= self.check_every and not steps_taken(model):
            self._num_steps = 0
            self._compare(model)

    def forget_steps(self) -> None:
        """Is told that `fit` was cut short, where ranks may have counted unlike numbers."""
        self._num_steps = 0

    def _compare(self, model: keras.Model) -> None:
        # Not frozen ones, which a train_step may change by itself, or which may have one copy.
        variables = variables_that_agree(model, frozen_too=False)
        copies = [local_copies(native_variable(variable)) for variable in variables]
        digests = np.array([[digest(copy) for copy in each] for each in copies])
        # As many columns on all ranks.
        missing = self._numbers.most - digests.shape[1]
        digests = np.pad(digests, ((0, 0), (0, missing)), mode="edge")
        own = [digest_of_all(of_replica.tolist()) for of_replica in digests.T]
        if len(np.unique(gather_digests(own, self._communicator, "replicas"))) == 1:
            return
        table = gather_digests(digests.ravel(), self._communicator, "variables of replicas")
        by_variable = table.reshape(self._communicator.size, *digests.shape)
        differing = [i for i in range(len(variables)) if len(np.unique(by_variable[:, i])) > 1]
        raise RuntimeError(self._sentence(model, variables, differing, by_variable))

    def _sentence(self, model, variables, differing, by_variable) -> str:
        first = by_variable[:, differing[0]]
        of_ranks = zip(first.tolist(), self._numbers.counts)
        of_replicas = [value for row, count in of_ranks for value in row[:count]]
        (usual, _), *_ = collections.Counter(of_replicas).most_common(1)
        ranks = [rank for rank, row in enumerate(first) if (row != usual).any()]
        steps = [int(optimizer.iterations) for optimizer in optimizers_of(model)]
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return refusal(
            f"equal weights on all replicas after step {max(steps, default=0)}",
            f"{variables[differing[0]].path!r}{more} of {len(variables)} variables with other bits "
            f"on {self._communicator.in_words(*ranks)}",
            "Resume from the last backup, and look at the memory of that host if it comes again.",
        )
