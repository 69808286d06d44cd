"""When each rank is through each phase: two that exchange wait for the later one."""

from __future__ import annotations

import numpy as np

from tf_adasum.advise.machine import Cluster, Constants
from tf_adasum.advise.schedule import MOST_IN_SWAP, NOBODY, Phase


class Clocks:
    """One clock per rank of a group, all 0 at first, and what each has sent.

    Args:
        cluster: where the ranks are; all share the cores of their hosts.
        constants: what things take.
        host: the host of every rank of the group.
        link_share: which part of its host's link the group has.
    """

    def __init__(self, cluster: Cluster, constants: Constants, host: np.ndarray, link_share: float):
        self._host = host
        self.is_spread = len(set(host)) == len(host) > 1
        self._turns = cluster.ranks_per_core
        self._bytes_per_second = constants.network_gbit_s / 8 * 1e9 * link_share
        self._far_round = constants.network_round_us * 1e-6
        is_shared = self._turns > 1
        self._loss = constants.shared_loss if is_shared else 1.0
        near_us = constants.shared_round_us * self._turns if is_shared else constants.round_us
        self.near_round = near_us * 1e-6
        self.seconds = np.zeros(len(host))

    def work(self, nanoseconds: np.ndarray | float) -> None:
        """Every rank computes; those that share a core take turns."""
        self.seconds = self.seconds + self.turns(nanoseconds)

    def turns(self, nanoseconds: np.ndarray | float) -> np.ndarray | float:
        """Seconds that so much work takes."""
        return nanoseconds * 1e-9 * self._turns * self._loss

    def is_far(self, phase: Phase) -> np.ndarray:
        """Which ranks exchange with one of another host."""
        return (phase.peer != NOBODY) & (self._host[phase.peer] != self._host)

    def meet(self, phase: Phase, hidden: np.ndarray | float = 0.0) -> None:
        """Every rank exchanges with its peer.

        Args:
            phase: who with whom, and what.
            hidden: seconds of work that goes on while bytes are on their way between hosts.
        """
        peer = np.where(phase.peer == NOBODY, np.arange(len(self._host)), phase.peer)
        is_far = self.is_far(phase)
        start = np.maximum(self.seconds, self.seconds[peer])
        near = np.maximum(phase.messages, phase.messages[peer]) * self.near_round
        out = np.bincount(self._host, phase.sent_bytes * is_far)
        into = np.bincount(self._host, phase.sent_bytes[peer] * is_far)
        of_host = np.maximum(out, into)[self._host] / self._bytes_per_second
        wire = np.maximum(of_host, of_host[peer]) + self._far_round
        far = np.maximum(wire, np.maximum(hidden, np.broadcast_to(hidden, wire.shape)[peer]))
        self.seconds = start + np.where(
            is_far, far, near + np.where(phase.peer == NOBODY, 0, hidden)
        )

    def meet_all(self, rounds: float, sent_bytes: np.ndarray | int = 0) -> None:
        """All ranks of the group exchange with each other.

        Args:
            rounds: on one host, how often they wait for each other.
            sent_bytes: of each rank, where each is on a host of its own: all under way at once.
        """
        wire = np.max(sent_bytes) / self._bytes_per_second + self._far_round
        exchanged = wire if self.is_spread else rounds * self.near_round
        self.seconds = np.full_like(self.seconds, self.seconds.max() + exchanged)

    def negotiate(self) -> None:
        """The round before a request, and all that ranks of several hosts agree on."""
        rounds = int(np.ceil(np.log2(max(len(self._host), 1))))
        is_near = (self._host == self._host[0]).all()
        if is_near and len(self._host) <= MOST_IN_SWAP:
            rounds = min(rounds, 1)  # a message to all
        self.seconds = self.seconds.max() + np.full_like(
            self.seconds, rounds * (self.near_round if is_near else self._far_round)
        )
