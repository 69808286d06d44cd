"""DLCP: what is not there in time is left out of a step, on all ranks alike."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.optimizers.deadline_exchange import DeadlineExchange
from tf_adasum.optimizers.sync.sync import Sync

_MOST_MILLISECONDS = 1e9


@dataclasses.dataclass(frozen=True)
class Deadline(Sync):
    """Each step with all ranks, without the few chunks of their messages that are late.

    What a rank exchanges is cut into up to 256 chunks (four for each rank, if that is more). With
    x_r what rank r has in this step and e_r what of it was left out before, R the variable's
    reduction (Adasum, mean or sum), and m_r which elements of rank r are there in time, 0 or 1,

        y = R(m_1 (x_1 + e_1), .., m_N (x_N + e_N)),   e_r <- (1 - m_r) (x_r + e_r)

    and all replicas step by y, bitwise the same. Nothing is lost: what is late goes into a later
    step. x_r is the change of the weights in mode="delta", the gradient in mode="gradient".

    First layers are sent first. When half of the time is over, ranks tell each other in a few
    messages which parts have come to those who reduce them; the other half is for the results. What
    is missing then is left out on all ranks if all of it is at most `max_left_out` of what all
    ranks have; else of the smallest by norm as much as that, and the rest is waited for. Where a
    result is late it takes its elements of all ranks with it; Adasum's weights are those of what
    was there at half the time. A link that is slow as a whole also ends in time: what has not begun
    to be sent is not sent.

    The time counts from when all ranks have come to the exchange: for ranks that are late take
    `GroupAveraging`. `optimizer.left_out` tells what was left out. Chunks travel by MPI, also
    between ranks of a host. A rank's local replicas are reduced before, and count as one.

    Args:
        milliseconds: how long an exchange may take, from 0 to 1e9.
        max_left_out: the largest share that is left out of a step, from 0 to 1.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> deadline = tf_adasum.sync.Deadline(milliseconds=50, max_left_out=0.01)
        >>> optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), sync=deadline)

    Source: Wang et al., "Domain-specific Communication Optimization for Distributed DNN Training"
    (arXiv:2008.08445), there packets that switches drop; residuals and Adasum are ours.
    """

    accumulates: ClassVar[bool] = True
    has_modes: ClassVar[bool] = True

    milliseconds: float = 50.0
    max_left_out: float = 0.01

    def __post_init__(self) -> None:
        checked_float("milliseconds", self.milliseconds, 0, _MOST_MILLISECONDS)
        checked_float("max_left_out", self.max_left_out, 0, 1)

    @override
    def exchange(self, mode: str) -> DeadlineExchange:
        return DeadlineExchange(mode, float(self.milliseconds), float(self.max_left_out))
