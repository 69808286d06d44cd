"""Ranks that train on unlike numbers of rows of each global batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.row_times import RowTimes
from tf_adasum.distribute.shared_batches import rows_of_share
from tf_adasum.distribute.stated_shares import MEASURED, checked
from tf_adasum.distribute.step_rounds import StepRounds
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.keras_hooks.core.replicas_flag import ReplicasFlag
from tf_adasum.keras_hooks.steps.losses import scaled


class BatchShare:
    """Which part of each global batch a rank trains on, and what its leaves count for it.

    A replica with b of the B rows of an exchange is weighed by N b / B. With the gradients g_r of
    mean losses the mean of the leaves is then that of all rows, sum_r b_r g_r / B, and their sum N
    times it, as with equal parts. So Adasum, which gives the mean where all are parallel and the
    sum where all are orthogonal, gives there what it gives with equal parts: a leaf of b rows
    stands for N b / B leaves of B / N rows each. Replicas without rows are no leaves of Adasum's,
    for which N is the number of the others. Where hosts reduce theirs first, hosts are its leaves:
    N is the number of the replicas of hosts that have rows.

    Args:
        share: a positive number for each rank, or "measured".
        communicator: the ranks.
        numbers: of the replicas; those of a rank share its rows equally.
        local_reduction: of a host's replicas before Adasum of the hosts; "adasum": none.

    Attributes:
        rounds: is told by optimizers after how many calls they exchange.

    Raises:
        ValueError: a share is neither.
    """

    def __init__(
        self,
        share: Sequence[float] | str,
        communicator: Communicator,
        numbers: ReplicaNumbers,
        local_reduction: str,
    ):
        self._communicator, self._numbers = communicator, numbers
        self._by_hosts = local_reduction != "adasum"
        is_measured = isinstance(share, str) and share == MEASURED
        parts = numbers.counts if is_measured else checked(share, communicator)
        self._times = RowTimes() if is_measured else None
        self._shares = make_plain_zeros([communicator.size])
        self._shares.assign(parts)
        # Of each local replica: rows of the steps since the last exchange, and whether one was made
        # of them, so that they count anew.
        num_local = numbers.counts[communicator.rank]
        self._rows = [make_plain_zeros([], "float32") for _ in range(num_local)]
        self._are_exchanged = [make_plain_zeros([], "bool") for _ in range(num_local)]
        for is_exchanged in self._are_exchanged:
            is_exchanged.assign(True)
        # Both as they were before the step under way.
        self._before = [
            (make_plain_zeros([], "float32"), make_plain_zeros([], "bool"))
            for _ in range(num_local)
        ]
        self._steps = ReplicasFlag()
        self.rounds = StepRounds(self._steps)

    @property
    def shares(self) -> list[float]:
        """The part of each rank; their sum is 1."""
        shares = self._shares.numpy()
        return (shares / shares.sum()).tolist()

    def own_rows(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the dataset with this rank's rows of each batch; not to be sharded again."""
        return rows_of_share(dataset, self._shares, self._communicator.rank)

    @contextlib.contextmanager
    def step(self, replica: int, num_rows: Any) -> Iterator[None]:
        """Inside, this thread runs, or traces, a training step of a local replica on so many rows.

        Several steps may go into one exchange.
        """
        with tf.device("CPU:0"):
            own, is_exchanged = self._rows[replica], self._are_exchanged[replica]
            rows_before, were_exchanged = self._before[replica]
            rows = tf.cast(num_rows, tf.float32)
            were_exchanged.assign(is_exchanged.read_value())
            rows_before.assign(tf.where(is_exchanged.read_value(), 0.0, own.read_value()))
            own.assign(rows_before.read_value() + rows)
            is_exchanged.assign(False)
            if self._times is not None and replica == 0:
                self._times.begin(rows)
        self.rounds.begin()
        with self._steps.raised():
            yield

    def weighed(
        self, leaves: Sequence[Sequence], reduction: str, name: str
    ) -> list[list[tf.Tensor]]:
        """Returns leaves times what they count; collective, where replicas meet.

        In Keras' training by the rows of the steps whose work they are, elsewhere, in loops of
        one's own, by the shares.

        Args:
            leaves: of each local replica, tensors or `tf.IndexedSlices`.
            reduction: of all of them.
            name: of what is exchanged.
        """
        with tf.device("CPU:0"):
            if self._steps.on or self._has_rows_left():
                weights = self._weights_by_rows(reduction, name)
            else:
                weights = [self._weight_by_shares()] * len(self._rows)
        return [scaled(leaf, weight) for leaf, weight in zip(leaves, weights)]

    def mean_weight(self, replica: int) -> tf.Tensor:
        """What a local replica's gradients count in a mean; in its context, of all alike."""
        with tf.device("CPU:0"):
            if not self._steps.on:
                return self._weight_by_shares()
            context = tf.distribute.get_replica_context()
            rows = self._rows[replica].read_value()
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, rows)
            self._are_exchanged[replica].assign(True)
            return context.num_replicas_in_sync * rows / tf.maximum(total, 1.0)

    def computed(self, values: Any) -> None:
        """Is told what a step of this rank has computed, before it is exchanged."""
        if self._times is not None and self._steps.on:
            self._times.end(values)

    def leave_out(self, replica: int, is_left_out: tf.Tensor) -> None:
        """Lets the rows of a local replica's step not count if that is skipped, for an overflow.

        In the replica's context; `is_left_out` is the same on all.
        """
        if not self._steps.on:
            return
        with tf.device("CPU:0"):
            now = self._rows[replica], self._are_exchanged[replica]
            for variable, before in zip(now, self._before[replica]):
                kept = tf.where(is_left_out, before.read_value(), variable.read_value())
                variable.assign(kept)

    def renew(self) -> None:
        """Takes the speeds that were measured since the last time for shares; collective.

        Data that are iterated already keep the shares of their beginning.
        """
        if self._times is None:
            return
        speeds = np.zeros(self._communicator.size)
        # Of one of a rank's replicas, for all of them.
        rank, number = self._communicator.rank, len(self._rows)
        speeds[rank] = number * self._times.rows_per_second()
        self._communicator.allreduce_arrays([speeds], "sum", "measured batch shares")
        if (speeds > 0).all():
            self._shares.assign(speeds)

    def _has_rows_left(self) -> bool:
        """Whether an eager exchange is of steps of `fit`, which ended in the midst of a round."""
        return tf.executing_eagerly() and not bool(self._are_exchanged[0].numpy())

    def _weights_by_rows(self, reduction: str, name: str) -> list[tf.Tensor]:
        own = [rows.read_value() for rows in self._rows]
        by_hosts = self._by_hosts and reduction == "adasum"
        counted = self._rows_of_hosts if by_hosts else _rows_of_leaf
        (totals,) = allreduce_replicas(
            [[counted(rows)] for rows in own],
            "sum",
            self._communicator,
            f"rows of {name}",
            ordered=False,
            replica_counts=self._numbers.for_ops,
        )
        for is_exchanged in self._are_exchanged:
            is_exchanged.assign(True)
        if by_hosts:
            leaves = tf.constant(list(map(self._num_leaves, self._communicator.hosts)), tf.float32)
            total, number = tf.reduce_sum(totals), tf.reduce_sum(leaves * _are_positive(totals))
        else:
            total = totals[0]
            number = totals[1] if reduction == "adasum" else float(self._numbers.total)
        return [number * rows / tf.maximum(total, 1.0) for rows in own]

    def _rows_of_hosts(self, rows: tf.Tensor) -> tf.Tensor:
        """A replica's rows at the place of its host."""
        is_here = [self._communicator.rank in host for host in self._communicator.hosts]
        return rows * tf.constant(np.float32(is_here))

    def _num_leaves(self, host: Sequence[int]) -> int:
        return sum(self._numbers.counts[rank] for rank in host)

    def _weight_by_shares(self) -> tf.Tensor:
        shares = self._shares.read_value()
        part = shares[self._communicator.rank] / tf.reduce_sum(shares)
        return tf.cast(self._numbers.total / len(self._rows) * part, tf.float32)


def _rows_of_leaf(rows: tf.Tensor) -> tf.Tensor:
    """A replica's rows, and whether it has any."""
    return tf.stack([rows, _are_positive(rows)])


def _are_positive(rows: tf.Tensor) -> tf.Tensor:
    return tf.cast(rows > 0, tf.float32)
