"""Short messages between ranks that nobody waits for, beside the operations of the library."""

from __future__ import annotations

import json
from collections.abc import Iterator

# What every MPI sends without waiting for the receiver, who may be stopped.
MOST_BYTES = 3500


class Mailbox:
    """One rank's end: any rank writes to any other at any time, and nobody waits.

    Its messages are JSON, in an MPI communicator of their own. One thread at a time uses it.

    Args:
        mpi: the module mpi4py.MPI. Making a mailbox is collective over MPI_COMM_WORLD.
    """

    def __init__(self, mpi):
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        # MPI reads the bytes until the request is complete.
        self._under_way: list[tuple[object, bytes]] = []

    def tell_all(self, mine: dict) -> list[dict]:
        """Returns what each rank has passed, by rank; collective, for the start.

        Args:
            mine: at most 500 bytes as JSON.
        """
        longest = 500
        data = json.dumps(mine).encode()
        if len(data) > longest:
            raise ValueError(f"Expected at most {longest} bytes. Received: {len(data)}.")
        everyone = bytearray(longest * self.size)
        self._comm.Allgather(
            [data.ljust(longest), self._mpi.BYTE], [everyone, longest, self._mpi.BYTE]
        )
        return [
            json.loads(everyone[start : start + longest])
            for start in range(0, len(everyone), longest)
        ]

    def send(self, to: int, message: dict) -> None:
        """Sends a message of at most MOST_BYTES as JSON; returns at once."""
        data = json.dumps(message, ensure_ascii=False).encode()
        if len(data) > MOST_BYTES:
            raise ValueError(f"Expected at most {MOST_BYTES} bytes. Received: {len(data)}.")
        self._under_way.append((self._comm.Isend([data, self._mpi.BYTE], to), data))

    def receive(self) -> Iterator[tuple[int, dict]]:
        """Yields what has come since the last time, each message with its sender."""
        self._under_way = [sent for sent in self._under_way if not sent[0].Test()]
        status = self._mpi.Status()
        while (found := self._comm.Improbe(status=status)) is not None:
            data = bytearray(status.Get_count(self._mpi.BYTE))
            found.Recv([data, self._mpi.BYTE])
            yield status.Get_source(), json.loads(data)
