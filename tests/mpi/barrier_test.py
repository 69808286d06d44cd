"""barrier on real ranks: nobody passes before all have come."""

import time

import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.mpi.rows import in_both


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
    """One for all ranks."""
    return MPI.COMM_WORLD.bcast(tmp_path_factory.mktemp("barrier"))


@in_both
@pytest.mark.parametrize("name", [None, "here"])
def test_nobody_passes_before_all_have_come(folder, name, compiled):
    """Each rank is late once; who has passed finds the marks of all."""
    wait = tf.function(lambda: adasum.barrier(name=name)) if compiled else adasum.barrier
    for late in range(adasum.size()):
        marks = [folder / f"{name}-{compiled}-{late}-{rank}" for rank in range(adasum.size())]
        if adasum.rank() == late:
            time.sleep(0.05)
        marks[adasum.rank()].touch()
        wait() if compiled else wait(name=name)
        assert all(mark.exists() for mark in marks)


def test_of_some_ranks(folder):
    part = adasum.world().split(adasum.rank() % 2)
    if adasum.rank() % 2 == 0:  # the odd ranks don't come
        (folder / f"even-{adasum.rank()}").touch()
        adasum.barrier(part)
        assert len(list(folder.glob("even-*"))) == part.size
    part.close()


def test_keeps_its_place_among_collectives():
    @tf.function
    def run(x):
        x = adasum.allreduce(x, "sum")
        adasum.barrier()
        return adasum.allgather(x)

    assert run(tf.ones([1])).numpy().tolist() == [adasum.size()] * adasum.size()


def test_a_rank_that_has_closed():
    part = adasum.world().split(0)
    last = adasum.size() - 1
    if adasum.rank() == last:
        part.close()
    told = "was closed" if adasum.rank() == last else f"rank {last} has closed this communicator"
    with pytest.raises(tf.errors.UnavailableError, match=told):
        adasum.barrier(part)
    part.close()
