"""The time of a wait that counts against its limit: as in C++ (cc/core/counted_time.h)."""

from __future__ import annotations

import time


class CountedTime:
    """Begins to count when it is made.

    A process that was stopped, as those of a suspended job are, finds by the clock that others have
    told nothing for as long, before they could. So between two looks no more counts than `most`.

    Args:
      most: seconds, which the looks of a process that runs are below.
    """

    def __init__(self, most: float = 1.0):
        self._most = most
        self._counted, self._last = 0.0, time.monotonic()

    def seconds(self) -> float:
        """Returns what counts since the beginning; to be asked at each look."""
        now = time.monotonic()
        self._counted += min(now - self._last, self._most)
        self._last = now
        return self._counted
