"""The values of a training's variables, brought to rank 0 and dealt out from there.

One variable after the other, so that rank 0 holds the values of all replicas of one variable.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_adasum.collectives.alltoall import alltoall
from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.distribute.own_variables import StateVariable
from tf_adasum.distribute.variables import first_copy, local_copies
from tf_adasum.keras_hooks.core import calls


class Value(NamedTuple):
    """What a variable holds.

    Attributes:
        array: of the variable's shape, or with a row for each replica, in their order.
        is_per_replica: whether it has rows.
    """

    array: np.ndarray
    is_per_replica: bool

    def common(self) -> np.ndarray:
        """One value for all: the mean; of integers and truth values the first replica's."""
        if not self.is_per_replica:
            return self.array
        if tf.as_dtype(self.array.dtype).is_floating:
            return np.mean(self.array, axis=0, dtype=np.float64).astype(self.array.dtype)
        return self.array[0]


class ReplicaState:
    """Moves values between the replicas of a model and rank 0; all ranks call its methods alike.

    Replicas are numbered as `ReplicaNumbers` says.

    Args:
        model: a model whose variables are meant.

    Attributes:
        num_replicas: N, of all ranks.
        counts: of each rank.
        num_local: of this one.
        is_root: whether this is rank 0.
    """

    def __init__(self, model: keras.Model):
        self._communicator: Communicator | None = calls.communicator_of(model)
        self._num_ranks = self._communicator.size if self._communicator else 1
        self.num_replicas = model.distribute_strategy.num_replicas_in_sync
        self.counts = [self.num_replicas]
        if self._communicator is not None:
            self.counts = model.distribute_strategy.extended.numbers.counts
        rank = 0 if self._communicator is None else self._communicator.rank
        self.num_local = self.counts[rank]
        self.is_root = rank == 0

    def collect(self, state: StateVariable) -> Value | None:
        """Returns the values of all replicas on rank 0, or one if these are equal; else None."""
        if not state.is_own:
            return Value(first_copy(state.variable).numpy(), False) if self.is_root else None
        rows = np.stack([copy.numpy() for copy in local_copies(state.variable)])
        if self._communicator is not None:
            splits = [0] * self._num_ranks
            splits[0] = self.num_local
            rows = self._deal(rows, splits, f"{state.name}: to rank 0")
        if not self.is_root:
            return None
        first = rows[0].tobytes()
        is_same = all(row.tobytes() == first for row in rows[1:])
        return Value(rows[0], False) if is_same else Value(rows, True)

    def assign(self, state: StateVariable, value: Value | None, is_per_replica: bool) -> None:
        """Gives every replica its row of rank 0's value, or all replicas the value.

        Args:
            state: the variable.
            value: on rank 0, with as many rows as replicas if it has any; None elsewhere.
            is_per_replica: whether rank 0's value has rows, as all ranks know.
        """
        copies = local_copies(state.variable)
        if is_per_replica:
            no_rows = np.zeros((0, *state.variable.shape), state.variable.dtype.as_numpy_dtype)
            rows = no_rows if value is None else value.array
            if self._communicator is not None:
                splits = self.counts if self.is_root else [0] * self._num_ranks
                rows = self._deal(rows, splits, f"{state.name}: to all ranks")
        else:
            own = copies[0].read_value() if value is None else tf.constant(value.array)
            if self._communicator is not None:
                with tf.device("CPU:0"):
                    own = broadcast(own, 0, self._communicator, f"{state.name}: to all ranks")
            rows = [own] * len(copies)
        for copy, row in zip(copies, rows):
            copy.assign(row)

    def _deal(self, rows: np.ndarray, splits: list[int], name: str) -> np.ndarray:
        with tf.device("CPU:0"):
            dealt, _ = alltoall(tf.constant(rows), splits, self._communicator, name)
            return dealt.numpy()
