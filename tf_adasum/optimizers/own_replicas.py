"""The replicas of one rank become one, without other ranks."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.distribute.extended import AdasumExtended


class OwnReplicas:
    """This rank alone, in each communicator that it is part of; made by all ranks alike.

    Also by a rank with one replica, where another has several.
    """

    def __init__(self):
        self._alone: dict[Communicator, Communicator] = {}

    def reduce(
        self, leaves: Sequence[Sequence[tf.Tensor]], reduction: str, extended: AdasumExtended
    ) -> list[tf.Tensor]:
        """Returns the reduction of a list of tensors for each local replica; of one, the list."""
        if extended.numbers.most == 1:
            return list(leaves[0])
        communicator = extended.communicator
        if communicator not in self._alone:
            alone = communicator.split(communicator.rank, name="own replicas")
            self._alone[communicator] = alone
        if len(leaves) == 1:
            return list(leaves[0])
        return allreduce_replicas(leaves, reduction, self._alone[communicator])
