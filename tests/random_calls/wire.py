"""Rank 0 tells the others what to call next, and hears what came of it: JSON, out of band.

By mpi4py on a communicator of its own, so that it works whatever tf_adasum's are up to. Waits
sleep: MPI's own would take the core from the rank that is waited for.
"""

from __future__ import annotations

import json
import time
from typing import Any

from mpi4py import MPI

_LIMIT_SECONDS = 120
_NAP_SECONDS = 0.0002


class Wire:
    """What the ranks of the test have beside the library that is tested."""

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self.rank = self._comm.Get_rank()
        self.size = self._comm.Get_size()

    def tell(self, command: dict[str, Any]) -> None:
        """Sends a command to all other ranks; on rank 0."""
        data = json.dumps(command).encode()
        for rank in range(1, self.size):
            self._comm.Send([data, MPI.BYTE], dest=rank)

    def hear(self) -> dict[str, Any]:
        """Waits for rank 0's next command; on the other ranks."""
        return self._receive(0, limit=None)

    def answer(self, outcome: dict[str, Any]) -> None:
        """Tells rank 0 what came of a command."""
        self._comm.Send([json.dumps(outcome).encode(), MPI.BYTE], dest=0)

    def answers(self) -> list[dict[str, Any]]:
        """Waits for the outcomes of all other ranks, in their order; on rank 0."""
        return [self._receive(rank, _LIMIT_SECONDS) for rank in range(1, self.size)]

    def _receive(self, source: int, limit: float | None) -> dict[str, Any]:
        begin, status = time.monotonic(), MPI.Status()
        while not self._comm.Iprobe(source=source, status=status):
            if limit is not None and time.monotonic() - begin > limit:
                raise TimeoutError(f"Expected the answer of rank {source} in {limit} s.")
            time.sleep(_NAP_SECONDS)
        data = bytearray(status.Get_count(MPI.BYTE))
        self._comm.Recv([data, MPI.BYTE], source=source)
        return json.loads(data.decode())
