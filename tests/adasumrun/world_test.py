"""mpi_test gives every rank its place in one MPI world."""

import os

from mpi4py import MPI

from adasumrun import job


def test_world_is_the_launchers():
    world = MPI.COMM_WORLD
    told = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["PMI_SIZE"]
    assert (world.rank, world.size) == (int(job.rank()), int(told))
    assert world.allgather(world.rank) == list(range(world.size))


def test_one_mpi_library_is_loaded():
    with open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if "/libmpi.so" in line}
    assert len(libraries) == 1
