"""What the machine is like while it is measured."""

import time

import numpy as np
from mpi4py import MPI


def ping_pong_seconds(comm: MPI.Comm, repetitions: int = 2000) -> float:
    """Half of a round trip of 8 bytes between ranks 0 and 1; equal on all ranks, 0 if alone."""
    if comm.size == 1:
        return 0.0
    message = np.zeros(1)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(repetitions):
        if comm.rank == 0:
            comm.Send(message, 1)
            comm.Recv(message, 1)
        elif comm.rank == 1:
            comm.Recv(message, 0)
            comm.Send(message, 0)
    return comm.bcast((time.perf_counter() - begin) / repetitions / 2, 0)


class CoreDistance:
    """Whether the cores of ranks 0 and 1 of one host share a cache: virtual ones are moved.

    A line that the other core has read is taken back in 0.1 ns a byte within a common cache, and in
    0.6 from another one (docs/performance.md, "Cores far apart").
    """

    _FAR_NANOSECONDS = 0.25
    _BYTES = 2**16

    def __init__(self, comm: MPI.Comm) -> None:
        """Takes memory that all ranks of `comm` share; all call this."""
        self._comm = comm
        num_bytes = self._BYTES if comm.rank == 0 else 0
        self._window = MPI.Win.Allocate_shared(num_bytes, 1, comm=comm)
        memory, _ = self._window.Shared_query(0)
        self._shared = np.frombuffer(memory, np.uint8)
        self._own = np.zeros_like(self._shared)

    def __call__(self) -> str:
        """Returns "near" or "far", the same on all ranks; all call this."""
        nanoseconds = 0.0
        for _ in range(2):  # the first brings everything into the caches
            if self._comm.rank == 1:
                np.copyto(self._own, self._shared)
            self._comm.Barrier()
            begin = time.perf_counter()
            if self._comm.rank == 0:
                np.copyto(self._shared, self._own)
            nanoseconds = 1e9 * (time.perf_counter() - begin) / self._BYTES
            self._comm.Barrier()
        return "far" if self._comm.bcast(nanoseconds) > self._FAR_NANOSECONDS else "near"
