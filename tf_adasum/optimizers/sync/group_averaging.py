"""WAGMA: replicas meet in changing groups, in which nobody waits for one that is late."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_int
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.optimizers.group_exchange import GroupExchange
from tf_adasum.optimizers.sync.sync import Sync

_MOST = 2**16


@dataclasses.dataclass(frozen=True)
class GroupAveraging(Sync):
    """Each step with a group of ranks, every `sync_every`-th step with all of them.

    With the weights w_start that all replicas had when they last met, the change d_r of rank r
    since then, T = sync_every and R, the variable's reduction (Adasum, or the mean by a rule of the
    strategy), in each of the first T - 1 steps

        w <- w_start + R(d_r : r in the group),

    and in the T-th all replicas meet: w <- w_start + R(d_1, .., d_N), the same bits everywhere.
    Groups go by a butterfly, so that after log2(N) / log2(group_size) steps what one rank knows has
    come to all. Where the ranks are no power of two, some groups are smaller, and others each time.

    But for the first step of `fit` and those in which all meet, a step waits for nobody: the first
    rank that comes to it has all groups meet, and for a rank that is late its change after the last
    step that it took counts, or zero since all met. When that one comes, it combines its own change
    with what its last group found: (S R + d_r) / (S + 1) for the mean of S ranks, Adasum(R, d_r)
    else; if its group has found nothing since its last step, it goes on with its own. So a rank is
    at most T - 1 steps behind. Momenta are each replica's own. `optimizer.lateness` tells how many
    of this rank's steps were late. Other things that `fit` does may wait in each step:
    docs/synchronisation.md says which, and how to keep it from them.

    Rounds of groups travel as they are. A rank's local replicas are reduced before, and count as
    one.

    Args:
        group_size: ranks in a group, a power of two. The root of the number of ranks is a good
            start.
        sync_every: T, from 2 to 65536.
        wait: whether each step waits for the slowest rank; groups then only save bytes.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> groups = tf_adasum.sync.GroupAveraging(group_size=4, sync_every=10)
        >>> optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), sync=groups)

    Source: Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with
    Wait-Avoiding Group Averaging", IEEE TPDS 2021 (arXiv:2005.00124), Algorithm 2, there with
    the mean of weights; other numbers of ranks, changes since all met, and Adasum are ours.
    """

    accumulates: ClassVar[bool] = True

    group_size: int = 4
    sync_every: int = 10
    wait: bool = False

    def __post_init__(self) -> None:
        group_size = checked_int("group_size", self.group_size, 2, _MOST)
        sync_every = checked_int("sync_every", self.sync_every, 2, _MOST)
        if group_size & (group_size - 1):
            expected = "group_size to be a power of two"
            raise ValueError(refusal(expected, shown(self.group_size), "Pass 2, 4, 8 and so on."))
        if not isinstance(self.wait, bool):
            raise TypeError(refusal("wait to be a bool", shown(self.wait), "Pass True or False."))
        # As ints of Python: NumPy's are no attributes of an op.
        object.__setattr__(self, "group_size", group_size)
        object.__setattr__(self, "sync_every", sync_every)

    @override
    def exchange(self, mode: str) -> GroupExchange:
        del mode
        return GroupExchange(self.group_size, self.sync_every, self.wait)
