"""What the machine is like while it is measured."""

import time

import numpy as np
from mpi4py import MPI


def ping_pong_seconds(comm: MPI.Comm, repetitions: int = 2000) -> float:
    """Half of a round trip of 8 bytes between ranks 0 and 1; equal on all ranks, 0 if alone.

    On virtual machines it tells whether the two cores share a cache at the moment: they are moved.
    """
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
