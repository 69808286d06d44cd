"""Time, messages and bytes of whole allreduces: flat Adasum, a local reduction before, a ring sum.

Work is counted in bytes that a pass touches (docs/performance.md, "Passes over memory"). It takes
place before and after an exchange, or while bytes are on their way between hosts, as the code has
it; ranks that share a core take turns.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from tf_adasum.advise import schedule
from tf_adasum.advise.block import Block
from tf_adasum.advise.clocks import Clocks
from tf_adasum.advise.machine import Cluster, Constants, Passes
from tf_adasum.advise.schedule import ELEMENT_BYTES

_CACHED_BYTES = 256 << 10  # a chunk where ranks share memory
_POSTED_BYTES = 2 << 20  # and where none do
_SHARED_BLOCK_BYTES = 1 << 20
_MESSAGE_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Of one allreduce.

    Attributes:
        seconds: until the last rank is through.
        sent_bytes: of every rank, but for the negotiation.
        messages: in which they are sent.
    """

    seconds: float
    sent_bytes: np.ndarray
    messages: np.ndarray

    def __add__(self, other: Prediction) -> Prediction:
        return Prediction(
            self.seconds + other.seconds,
            self.sent_bytes + other.sent_bytes,
            self.messages + other.messages,
        )


class Model:
    """Predicts for one cluster.

    Args:
        cluster: where the ranks are.
        constants: what things take there.
    """

    def __init__(self, cluster: Cluster, constants: Constants):
        self._cluster = cluster
        self._constants = constants
        self._hosts = np.repeat(np.arange(cluster.hosts), cluster.ranks_per_host)

    def flat(self, sizes: list[int], reduction: str = "adasum") -> Prediction:
        """One tree over all ranks, as without a local reduction.

        Args:
            sizes: float32 elements of each tensor.
            reduction: "adasum" or "sum".
        """
        if self._is_enclosed(sizes):
            return self._enclosed(sizes, reduction)
        return self._negotiation() + self._of_list(sizes, reduction, self._hosts)

    def hierarchical(self, sizes: list[int]) -> Prediction:
        """A sum inside every host, Adasum across: the stages of cc/collectives/hierarchy.h."""
        total = self._negotiation()
        per_host = self._cluster.ranks_per_host
        inside = self._of_list(sizes, "sum", np.zeros(per_host, int))
        total += _on_hosts(inside, self._cluster.hosts)
        if self._cluster.hosts == 1:
            return total
        total += _on_hosts(self._barriers(1), self._cluster.hosts)
        return total + self._across(sizes) + _on_hosts(self._spread(sizes), self._cluster.hosts)

    def ring(self, sizes: list[int]) -> Prediction:
        """A sum of one flat buffer around a ring: 2 (N - 1) steps of an N-th of it."""
        size, constants = self._cluster.size, self._constants
        num_bytes = ELEMENT_BYTES * sum(sizes)
        part = num_bytes / size
        clocks = self._clocks(self._hosts)
        copied = clocks.turns(part * constants.long.deliver)
        step = clocks.near_round + copied
        if self._cluster.hosts > 1:
            far = constants.network_round_us * 1e-6
            step = max(step, far + part / (constants.network_gbit_s / 8 * 1e9))
        added = clocks.turns(2 * part * constants.long.add)
        seconds = 2 * (size - 1) * step + (size - 1) * added
        steps = np.full(size, 2 * (size - 1))
        return Prediction(seconds, (steps * part).astype(int), steps)

    def _clocks(self, hosts: np.ndarray, link_share: float = 1.0) -> Clocks:
        return Clocks(self._cluster, self._constants, hosts, link_share)

    def _negotiation(self) -> Prediction:
        clocks = self._clocks(self._hosts)
        clocks.negotiate()
        nothing = np.zeros(self._cluster.size, int)
        seconds = clocks.seconds.max() + self._constants.call_us * 1e-6
        return Prediction(seconds, nothing, nothing)

    def _is_enclosed(self, sizes: list[int]) -> bool:
        """Whether the list goes with the request's key: it is short, and few ranks share memory."""
        if not self._cluster.shares_memory or self._cluster.hosts > 1:
            return False
        is_short = 0 < ELEMENT_BYTES * sum(sizes) <= schedule.SHORT_BYTES
        return is_short and 1 < self._cluster.size <= schedule.MOST_IN_SWAP

    def _enclosed(self, sizes: list[int], reduction: str) -> Prediction:
        """Every rank combines all vectors."""
        phase = schedule.enclosed(self._cluster.size, sum(sizes))
        passes = self._constants.hot
        each = passes.products(2) + passes.combine if reduction == "adasum" else passes.add
        clocks = self._clocks(self._hosts)
        clocks.negotiate()
        clocks.work(2 * phase.combined_bytes * each)
        seconds = clocks.seconds.max() + self._constants.call_us * 1e-6
        return Prediction(seconds, phase.sent_bytes, phase.messages)

    def _of_list(
        self, sizes: list[int], reduction: str, hosts: np.ndarray, link_share: float = 1.0
    ) -> Prediction:
        """In blocks, short where ranks of the group share memory."""
        some_share_memory = len(set(hosts)) < len(hosts)
        most = (_SHARED_BLOCK_BYTES if some_share_memory else _MESSAGE_BYTES) * self._cluster.width
        nothing = np.zeros(len(hosts), int)
        total = Prediction(0, nothing, nothing)
        of_kind = functools.cache(
            lambda *block: self._of_block(*block, hosts, link_share, self._coldness(sizes))
        )
        for block in schedule.blocks(sizes, most):
            if len(hosts) > 1 and sum(block) > 0:
                total += of_kind(sum(block), len(block) if reduction == "adasum" else 0)
        return total

    def _of_block(
        self, elements: int, variables: int, hosts: np.ndarray, link_share: float, coldness: float
    ) -> Prediction:
        is_shared = self._cluster.shares_memory
        chunk = (_CACHED_BYTES if is_shared else _POSTED_BYTES) * self._cluster.width
        size = len(hosts)
        if ELEMENT_BYTES * elements <= schedule.SHORT_BYTES:
            phases = schedule.doubling(size, elements)
        elif self._is_direct(hosts):
            phases = schedule.direct(size, elements, variables, chunk)
        else:
            phases = schedule.halving(size, elements, variables, chunk)
        clocks = self._clocks(hosts, link_share)
        block = Block(clocks, self._passes_over(elements, coldness), chunk, variables > 0, size)
        nothing = np.zeros(size, int)
        sent_bytes, messages = nothing, nothing
        for phase in phases:
            block.take(phase)
            sent_bytes, messages = sent_bytes + phase.sent_bytes, messages + phase.messages
        return Prediction(block.clocks.seconds.max(), sent_bytes, messages)

    @staticmethod
    def _is_direct(hosts: np.ndarray) -> bool:
        """Few ranks of one host; or each of its own, where their number is no power of two."""
        size = len(hosts)
        if size > schedule.MOST_DIRECT:
            return False
        return (hosts == hosts[0]).all() or (len(set(hosts)) == size and size & (size - 1) != 0)

    def _coldness(self, sizes: list[int]) -> float:
        """How much of the vectors of all ranks of a machine comes from memory, not its cache.

        Beside them what is packed and the results want room there: up to a quarter of the cache
        they are in it, from three quarters on they are not.
        """
        ranks = self._cluster.ranks_per_host * self._cluster.hosts_per_machine
        part = ranks * ELEMENT_BYTES * sum(sizes) / self._constants.cache_bytes
        return min(max(2 * part - 0.5, 0.0), 1.0)

    def _passes_over(self, elements: int, coldness: float) -> Passes:
        is_long = ELEMENT_BYTES * elements > 2 * _SHARED_BLOCK_BYTES * self._cluster.width
        cold = self._constants.long if is_long else self._constants.cached
        return self._constants.hot.mixed(cold, coldness)

    def _across(self, sizes: list[int]) -> Prediction:
        """The k-th ranks of all hosts reduce the k-th run, all runs at the same time."""
        hosts, per_host = self._cluster.hosts, self._cluster.ranks_per_host
        runs = schedule.runs(sizes, per_host)
        parts = [
            self._of_list(run, "adasum", np.arange(hosts), max(sum(run) / sum(sizes), 1e-12))
            for run in runs
        ]
        ranks = np.arange(self._cluster.size)
        sent = np.array([part.sent_bytes for part in parts])[ranks % per_host, ranks // per_host]
        messages = np.array([part.messages for part in parts])[ranks % per_host, ranks // per_host]
        return Prediction(max(part.seconds for part in parts), sent, messages)

    def _barriers(self, number: int) -> Prediction:
        """Of the ranks of a host, a byte a round."""
        per_host = self._cluster.ranks_per_host
        rounds = int(np.ceil(np.log2(per_host))) * number
        sent = np.full(per_host, rounds)
        return Prediction(rounds * self._clocks(self._hosts).near_round, sent, sent)

    def _spread(self, sizes: list[int]) -> Prediction:
        """The ranks of a host read the finished runs from each other, chunk by chunk."""
        per_host = self._cluster.ranks_per_host
        if per_host == 1:
            return self._barriers(0)
        runs = np.array([sum(run) for run in schedule.runs(sizes, per_host)])
        chunk = _SHARED_BLOCK_BYTES // ELEMENT_BYTES
        clocks = self._clocks(np.zeros(per_host, int))
        rounds = -(-int(runs.max()) // chunk)
        passes = self._constants.cached
        of_others = runs.sum() - runs
        clocks.work(ELEMENT_BYTES * (runs * passes.pack + of_others * passes.deliver))
        clocks.meet_all(rounds * (per_host - 1))
        chunks = -(-runs // chunk)
        others = per_host - 1
        spread = Prediction(clocks.seconds.max(), others * ELEMENT_BYTES * runs, others * chunks)
        return spread + self._barriers(rounds)


def _on_hosts(of_one: Prediction, hosts: int) -> Prediction:
    """What the ranks of every host do at the same time."""
    return Prediction(
        of_one.seconds, np.tile(of_one.sent_bytes, hosts), np.tile(of_one.messages, hosts)
    )
