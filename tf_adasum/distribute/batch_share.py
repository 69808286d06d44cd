"""Ranks that train on unlike numbers of rows of each global batch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.distribute.row_times import RowTimes
from tf_adasum.distribute.shared_batches import rows_of_share
from tf_adasum.keras_hooks.plain_variable import make_plain_zeros
from tf_adasum.keras_hooks.replicas_flag import ReplicasFlag

MEASURED = "measured"


class BatchShare:
    """Which part of each global batch a rank trains on, and what its leaves count for it.

    A replica with b of the B rows of a step is weighed by N b / B. With the gradients g_r of mean
    losses the mean of the leaves is then that of all rows, sum_r b_r g_r / B, and their sum N
    times it, as with equal parts. So Adasum, which gives the mean where all are parallel and the
    sum where all are orthogonal, gives there what it gives with equal parts: a leaf of b rows
    stands for N b / B leaves of B / N rows each.

    Args:
        share: a positive number for each rank, or "measured".
        communicator: the ranks; all must make it.
        num_local: replicas of each rank, which share its rows equally.

    Raises:
        ValueError: a share is neither, or ranks give unlike ones.
    """

    def __init__(self, share: Sequence[float] | str, communicator: Communicator, num_local: int):
        self._communicator = communicator
        is_measured = isinstance(share, str) and share == MEASURED
        numbers = np.ones(communicator.size) if is_measured else _checked(share, communicator)
        _check_alike(MEASURED if is_measured else str(numbers.tolist()), communicator)
        self._times = RowTimes() if is_measured else None
        self._shares = make_plain_zeros([communicator.size])
        self._shares.assign(numbers)
        self._weights = [make_plain_zeros([], "float32") for _ in range(num_local)]
        self._steps = ReplicasFlag()
        self._thread = threading.local()

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

        In replica context, of all replicas alike: they add their numbers of rows.
        """
        context = tf.distribute.get_replica_context()
        with tf.device("CPU:0"):
            rows = tf.cast(num_rows, tf.float32)
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, rows)
            number = float(context.num_replicas_in_sync)
            self._weights[replica].assign(number * rows / tf.maximum(total, 1.0))
            if self._times is not None:
                self._times.begin(rows, is_first=replica == 0)
        self._thread.replica = replica
        try:
            with self._steps.raised():
                yield
        finally:
            self._thread.replica = None

    def weights(self) -> list[tf.Tensor]:
        """What each local replica's leaf counts, in whatever is reduced to variables.

        Of the rows of the step under way in Keras' training; elsewhere, in loops of one's own, of
        the shares.
        """
        with tf.device("CPU:0"):
            if self._steps.on:
                return [weight.read_value() for weight in self._weights]
            shares = self._shares.read_value()
            part = shares[self._communicator.rank] / tf.reduce_sum(shares)
            return [tf.cast(self._communicator.size * part, tf.float32)] * len(self._weights)

    def weight_here(self) -> tf.Tensor:
        """What the leaf of this thread's replica counts."""
        return self.weights()[getattr(self._thread, "replica", None) or 0]

    def computed(self, values: Any) -> None:
        """Is told what a step of this rank has computed, before it is exchanged."""
        if self._times is not None and self._steps.on:
            self._times.end(values)

    def renew(self) -> None:
        """Takes the speeds that were measured since the last time for shares; collective.

        Data that are iterated already keep the shares of their beginning.
        """
        if self._times is None:
            return
        speeds = np.zeros(self._communicator.size)
        speeds[self._communicator.rank] = self._times.rows_per_second()
        self._communicator.allreduce_arrays([speeds], "sum", "measured batch shares")
        if (speeds > 0).all():
            self._shares.assign(speeds)


def _checked(share: Any, communicator: Communicator) -> np.ndarray:
    expected = f"batch_share to be 'measured' or {communicator.size} positive numbers, one a rank"
    error = ValueError(refusal(expected, shown(share), "Pass such a batch_share."))
    if isinstance(share, str):
        raise error
    try:
        numbers = np.array(share, np.float64)
    except (TypeError, ValueError):
        raise error from None
    is_well = numbers.shape == (communicator.size,) and np.isfinite(numbers).all()
    if not is_well or not (numbers > 0).all():
        raise error
    return numbers


def _check_alike(own: str, communicator: Communicator) -> None:
    of_ranks = [each.decode() for each in gather_bytes(own.encode(), communicator, "batch_share")]
    unlike = [rank for rank, each in enumerate(of_ranks) if each != of_ranks[0]]
    if unlike:
        received = f"{of_ranks[0]} on rank 0, {of_ranks[unlike[0]]} on rank {unlike[0]}"
        advice = "Pass the shares of all ranks on each."
        raise ValueError(refusal("the same batch_share on all ranks", received, advice))
