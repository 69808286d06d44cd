"""A flag that replicas raise while they are inside of something."""

from __future__ import annotations

import contextlib


class ReplicasFlag:
    """On while a replica of this process is in `with flag.raised()`.

    For all threads: replicas take turns in threads of their own, and what they merge runs in
    others. All replicas run the same program, so that they are inside together.
    """

    def __init__(self):
        self._num_inside = 0

    @property
    def on(self) -> bool:
        """Whether a replica is inside."""
        return self._num_inside > 0

    @contextlib.contextmanager
    def raised(self):
        """Inside, the flag is on."""
        self._num_inside += 1
        try:
            yield
        finally:
            self._num_inside -= 1
