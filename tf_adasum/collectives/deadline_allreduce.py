"""Allreduces without what is late, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import indices_by_dtype, issuing, name_of_dtype


class DeadlineAllreduce:
    """An allreduce that ends in time; made by all ranks alike.

    Args:
        communicator: whose ranks take part; this is collective. Chunks have a communicator of their
            own.
        name: equal on all ranks.
        milliseconds: for each call, from when all ranks have come to it.
        max_left_out: the largest share of all ranks' elements that is left out of a call; what is
            beyond it is waited for.
    """

    def __init__(
        self, communicator: Communicator, name: str, milliseconds: float, max_left_out: float
    ):
        # By MPI alone: a rank that waits for another in shared memory would push no chunks.
        self._communicator = communicator.split(0, name=name, options={"shared_memory": False})
        self._name = name
        self._settings = {"milliseconds": milliseconds, "max_left_out": max_left_out}

    def reduce(
        self, tensors: Sequence[tf.Tensor], reductions: Sequence[str]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """Returns the reductions of what is there in time, the same bits on all ranks.

        Args:
            tensors: floats; dtypes and shapes are equal on all ranks.
            reductions: of each, "adasum", "mean" or "sum".

        Returns:
            The reductions; what of this rank's tensors is not in them, else zero; and the share
            that was left out of all ranks' elements, float64 [], the same on all ranks.

        Raises:
            tf.errors.InvalidArgumentError: if ranks pass different things.
            tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
            tf.errors.UnavailableError: if a rank has ended.
        """
        by_dtype = indices_by_dtype(tensors)
        reduced: list = [None] * len(tensors)
        left_out: list = [None] * len(tensors)
        shares, sizes = [], []
        for dtype, indices in by_dtype.items():
            chosen = [tensors[index] for index in indices]
            op_name = name_of_dtype(self._name, dtype, by_dtype)
            with issuing(self._communicator, op_name, ordered=True) as (handle, attributes):
                outputs, rest, share = native.ops.adasum_deadline_allreduce(
                    handle,
                    chosen,
                    reductions=[reductions[index] for index in indices],
                    **self._settings,
                    **attributes,
                )
            for index, output, left in zip(indices, outputs, rest):
                reduced[index], left_out[index] = output, left
            shares.append(share)
            sizes.append(tf.add_n([tf.size(each, tf.float64) for each in chosen]))
        total = tf.maximum(tf.add_n(sizes), 1.0)
        share = tf.add_n([share * size for share, size in zip(shares, sizes)]) / total
        return reduced, left_out, share
