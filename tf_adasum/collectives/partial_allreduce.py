"""Allreduces of changing groups of ranks in which nobody waits for a rank that is late."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import issuing


class PartialAllreduce:
    """Rounds of groups of ranks, one in each call; made by all ranks alike.

    A round takes place when one rank has come to it, and takes of every other rank what that one
    passed in its last call. The first call of all waits for all ranks.

    Args:
        communicator: whose ranks take part; this is collective. Rounds have a communicator of their
            own.
        name: equal on all ranks.
        group_size: ranks in a group, a power of two; where ranks are no power of two, some groups
            are smaller.
    """

    def __init__(self, communicator: Communicator, name: str, group_size: int):
        self._communicator = communicator.split(0, name=f"{name}: groups")
        self._name = name
        self._group_size = group_size

    def reduce(
        self,
        tensors: Sequence[tf.Tensor],
        reductions: Sequence[str],
        turn: tf.Tensor | int | None = None,
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns what the round of this call gives, and how many rounds were over before.

        In time, that is the reduction over this rank's group. A rank that is late gets its tensors,
        as one leaf more, combined with the newest result since its last call that what it passed
        then went into; its tensors as they are where there is none.

        Args:
            tensors: floats of one dtype; shapes are equal on all ranks and in all calls.
            reductions: of each, "adasum" or "mean".
            turn: an int64 scalar from 0, equal on all ranks: the round waits for the calls of all,
                and so far the groups have rotated. None: it waits for no call, and rounds are
                counted. Either in all calls.

        Raises:
            tf.errors.InvalidArgumentError: if ranks pass different things.
            tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
            tf.errors.UnavailableError: if a rank has ended, and the call is not late.
        """
        with issuing(self._communicator, self._name, ordered=True) as (handle, attributes):
            reduced, num_behind = native.ops.adasum_partial_allreduce(
                handle,
                tensors,
                0 if turn is None else turn,
                reductions=list(reductions),
                group_size=self._group_size,
                waits=turn is not None,
                **attributes,
            )
        return reduced, num_behind

    def reset(self, restarts: bool = False) -> tf.Operation | None:
        """Lets what this rank has passed count as zero from now on; asks no other rank.

        Args:
            restarts: whether ranks wait for each other in the next call, as in the first. All ranks
                do so alike, before any of them makes that call.
        """
        with issuing(self._communicator, self._name, ordered=True) as (handle, attributes):
            return native.ops.adasum_partial_reset(handle, restarts=restarts, **attributes)
