"""What one block of an allreduce takes, phase by phase: exchanges, and the passes between them."""

from __future__ import annotations

import numpy as np

from tf_adasum.advise import schedule
from tf_adasum.advise.clocks import Clocks
from tf_adasum.advise.machine import Passes
from tf_adasum.advise.schedule import Phase

_PACKED_CHUNKS = 8


class Block:
    """One block on its way through the phases."""

    def __init__(
        self, clocks: Clocks, passes: Passes, chunk_bytes: int, has_moments: bool, size: int
    ):
        self.clocks = clocks
        self._passes = passes
        self._chunk_bytes = chunk_bytes
        self._has_moments = has_moments
        self._size = size
        self._last = schedule.levels_of(size) - 1

    def take(self, phase: Phase) -> None:
        """Goes through one phase, and what each rank computes in it."""
        if phase.kind in ("offer", "grams", "results"):
            self._direct(phase)
        elif phase.kind in ("halves", "fold", "swap"):
            self._combine(phase)
        elif phase.kind == "moments":
            self.clocks.meet(phase)
        else:
            self._deliver(phase)

    def _combine(self, phase: Phase) -> None:
        """Packs, exchanges, finds the moments and combines what it keeps."""
        is_first = phase.kind == "fold" or phase.level == 0
        packed = phase.sent_bytes * self._passes.pack * is_first
        is_near = ~self.clocks.is_far(phase)
        is_twice = is_near & (phase.messages > _PACKED_CHUNKS) & self._has_moments
        self.clocks.work(packed * (1 + is_twice))
        kept = 2 * phase.combined_bytes
        of_moments = kept * self._passes.products(2) * self._has_moments
        self.clocks.meet(phase, self.clocks.turns(of_moments))
        self._finish_last_chunk(phase, of_moments)
        each = self._passes.combine if self._has_moments else self._passes.add
        is_returned_meanwhile = (phase.kind == "halves") & (phase.level == self._last)
        self.clocks.work(kept * each * np.where(is_returned_meanwhile & ~is_near, 0, 1))

    def _deliver(self, phase: Phase) -> None:
        """Fetches results; those of later levels are kept for the peers of earlier ones."""
        is_far = self.clocks.is_far(phase)
        copies = np.where(~is_far & (phase.level > 0), 2, 1)
        delivered = phase.combined_bytes * self._passes.deliver * copies
        if phase.kind == "gather" and phase.level == self._last:
            each = self._passes.combine if self._has_moments else self._passes.add
            delivered = delivered + 2 * phase.sent_bytes * each * is_far
        self.clocks.meet(phase, self.clocks.turns(delivered))
        self._finish_last_chunk(phase, delivered)

    def _finish_last_chunk(self, phase: Phase, nanoseconds: np.ndarray) -> None:
        """What can't be done before the last bytes are there, between hosts."""
        chunks = np.maximum(1, phase.combined_bytes / self._chunk_bytes)
        self.clocks.work(np.where(self.clocks.is_far(phase), nanoseconds / chunks, 0))

    def _direct(self, phase: Phase) -> None:
        clocks, passes = self.clocks, self._passes
        rounds = phase.messages.max() / (self._size - 1)
        if phase.kind == "offer":
            slots = min(max(2, _PACKED_CHUNKS // (self._size - 1)), max(rounds, 1))
            is_packed_twice = self._has_moments and not clocks.is_spread
            again = (rounds - slots) / max(rounds, 1) if is_packed_twice else 0
            whole = phase.sent_bytes.max() + phase.combined_bytes.max()
            clocks.work(phase.sent_bytes * passes.pack * (1 + again))
            if self._has_moments:
                clocks.work(whole * (passes.products(self._size) + passes.combine))
            else:
                clocks.work(whole * passes.add)
        elif phase.kind == "results":
            clocks.work(phase.combined_bytes * passes.deliver)
        clocks.meet_all(max(rounds, 1), phase.sent_bytes)
