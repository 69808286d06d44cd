"""How the replicas of all ranks are numbered: those of a rank follow each other."""

from __future__ import annotations

import itertools

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes


class ReplicaNumbers:
    """Replica l of rank p is number L_0 + .. + L_(p - 1) + l; with L on each p * L + l.

    Args:
        counts: L_p, the number of replicas of each rank, at least 1.

    Attributes:
        counts: of each rank.
        total: N, their sum.
        most: of the rank that has most.
    """

    def __init__(self, counts: list[int]):
        self.counts = list(counts)
        self._begins = [0, *itertools.accumulate(counts)]
        self.total, self.most = sum(counts), max(counts)

    @classmethod
    def of_all(cls, num_local: int, communicator: Communicator) -> ReplicaNumbers:
        """Returns the numbers of ranks of which this one has `num_local` replicas; collective."""
        texts = gather_bytes(str(num_local).encode(), communicator, "numbers of local replicas")
        return cls([int(text) for text in texts])

    @property
    def are_unlike(self) -> bool:
        """Whether a rank has more replicas than another."""
        return min(self.counts) < self.most

    @property
    def for_ops(self) -> list[int]:
        """What `allreduce_replicas` and its like take: nothing where all ranks have as many."""
        return self.counts if self.are_unlike else []

    def first_of(self, rank: int) -> int:
        """Returns the number of a rank's first replica."""
        return self._begins[rank]
