"""local_reduction on real ranks: hosts are what TF_ADASUM_HOST says, in any order of the ranks.

Ranks of one named host share memory and reach the others by MPI, as real hosts do (tests/hosts has
those). A split asks every rank for its host anew, so that one launch sees many maps.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

FLOATS = list(error_model.LIMITS)
SHAPES = [(), (1,), (0,), (17,), (5, 7), (1000,), (33, 129)]
# The host of each rank, by letter; the last letter goes on. Few ranks see some of these as one.
MAPS = ["A", "AABB", "AAB", "AB", "ABABABAB", "ABBACBCA", "ABCDEFGH"]


def _hosts(letters):
    """The ranks of each host, hosts by their lowest rank."""
    size = MPI.COMM_WORLD.size
    letters = letters[:size].ljust(size, letters[-1])
    return [
        [rank for rank, letter in enumerate(letters) if letter == host]
        for host in dict.fromkeys(letters)
    ]


@pytest.fixture(
    params={str(_hosts(letters)): _hosts(letters) for letters in MAPS}.values(), ids=str
)
def hosts(request):
    return request.param


@pytest.fixture
def communicator(hosts, monkeypatch):
    host = next(index for index, ranks in enumerate(hosts) if adasum.rank() in ranks)
    monkeypatch.setenv("TF_ADASUM_HOST", f"host{host}")
    part = adasum.world().split(0)
    yield part
    part.close()


def _inputs(leaves, dtype, shapes=SHAPES):
    rng = np.random.default_rng([leaves, len(shapes)])
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return [
        [np.asarray(rng.normal(size=shape)).astype(numpy_dtype) for shape in shapes]
        for _ in range(leaves)
    ]


def _bytes(tensors):
    return [tensor.numpy().tobytes() for tensor in tensors]


def _check(results, inputs, hosts, local, counts=None):
    """Bitwise equal on all ranks, and what the reference says of the hosts' leaves."""
    mine = _bytes(results)
    assert MPI.COMM_WORLD.allgather(mine) == [mine] * MPI.COMM_WORLD.size
    counts = counts or [1] * adasum.size()
    of_ranks = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    leaves = [[leaf for rank in ranks for leaf in of_ranks[rank]] for ranks in hosts]
    for variable, result in enumerate(results):
        of_hosts = [[inputs[leaf][variable] for leaf in of_host] for of_host in leaves]
        error_model.check_hosts(local, result.numpy(), of_hosts)


def test_places(communicator, hosts):
    assert communicator.hosts == hosts
    ranks = next(ranks for ranks in hosts if communicator.rank in ranks)
    assert communicator.local_rank == ranks.index(communicator.rank)
    assert communicator.local_size == len(ranks)


@pytest.mark.parametrize("local", ["sum", "mean"])
def test_agrees_with_the_reference(communicator, hosts, local):
    inputs = {dtype: _inputs(adasum.size(), dtype) for dtype in FLOATS}
    mine = {
        dtype: [tf.constant(array) for array in of_ranks[adasum.rank()]]
        for dtype, of_ranks in inputs.items()
    }

    def reduce():
        return adasum.allreduce(mine, communicator=communicator, local_reduction=local)

    results = reduce()
    again, compiled = reduce(), tf.function(reduce)()
    for dtype in FLOATS:
        _check(results[dtype], inputs[dtype], hosts, local)
        assert _bytes(again[dtype]) == _bytes(compiled[dtype]) == _bytes(results[dtype])
        # The op may work in place on nobody else's memory.
        assert _bytes(mine[dtype]) == [array.tobytes() for array in inputs[dtype][adasum.rank()]]


@pytest.mark.parametrize("local", ["sum", "mean"])
def test_replicas_are_leaves(communicator, hosts, local):
    for dtype in FLOATS:
        inputs = _inputs(2 * adasum.size(), dtype)
        own = inputs[2 * adasum.rank() : 2 * adasum.rank() + 2]
        leaves = [[tf.constant(array) for array in of_leaf] for of_leaf in own]
        results = allreduce_replicas(
            leaves, communicator=communicator, name=dtype, local_reduction=local
        )
        _check(results, inputs, hosts, local, [2] * adasum.size())


@pytest.mark.parametrize("local", ["sum", "mean", "adasum"])
def test_hosts_have_unlike_numbers_of_leaves(communicator, hosts, local):
    """Some leaves are their rank's only one, some their host's, and some share both with others."""
    counts = [2, 1, 1, 3, 1, 1, 2, 1][: adasum.size()]
    first = sum(counts[: adasum.rank()])
    shapes = [*SHAPES, (100_003,)]
    inputs = _inputs(sum(counts), "float32", shapes)
    own = inputs[first : first + counts[adasum.rank()]]
    leaves = [[tf.constant(array) for array in each] for each in own]
    results = allreduce_replicas(
        leaves, communicator=communicator, local_reduction=local, replica_counts=counts
    )
    order = hosts if local != "adasum" else [list(range(adasum.size()))]
    _check(results, inputs, order, local, counts)


def test_adasum_inside_is_one_tree(communicator, hosts):
    inputs = _inputs(adasum.size(), "float32")
    mine = [tf.constant(array) for array in inputs[adasum.rank()]]
    of_hosts = adasum.allreduce(mine, communicator=communicator, local_reduction="adasum")
    flat = adasum.allreduce(mine, communicator=communicator)
    assert _bytes(of_hosts) == _bytes(flat)
    # In the order of the ranks, whatever their hosts.
    _check(of_hosts, inputs, [list(range(adasum.size()))], "adasum")


def test_many_blocks_and_steps(communicator, hosts):
    # Blocks of stage 1 and steps of stage 3 end at 1 MiB, inside of tensors too.
    shapes = [(7,)] * 50 + [(200_000,), (11,), (60_000,), (150_000,)] + [(1,)] * 20
    inputs = _inputs(adasum.size(), "float64", shapes)
    mine = [tf.constant(array) for array in inputs[adasum.rank()]]
    for step in range(3):
        local = ("sum", "mean")[step % 2]
        results = adasum.allreduce(mine, communicator=communicator, local_reduction=local)
        _check(results, inputs, hosts, local)


def test_parts_of_the_ranks(communicator):
    """A split of a split keeps the hosts of its own ranks, in its own order."""
    backwards = communicator.split(0, key=-communicator.rank)
    inputs = _inputs(adasum.size(), "float32")
    mine = [tf.constant(array) for array in inputs[adasum.rank()]]
    results = adasum.allreduce(mine, communicator=backwards, local_reduction="mean")
    _check(results, inputs[::-1], backwards.hosts, "mean")
    backwards.close()


def test_disagreement_is_reported(communicator):
    local = "sum" if communicator.rank == 0 else "mean"
    if communicator.size == 1:
        assert adasum.allreduce(tf.ones(2), local_reduction=local).numpy().tolist() == [1.0, 1.0]
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match="of each host's mean") as caught:
        # Named: unnamed operations that are unlike have nothing in common, and wait for each other.
        adasum.allreduce(
            tf.ones(2), communicator=communicator, name="unlike", local_reduction=local
        )
    assert "rank 0 passed allreduce(adasum of each host's sum)" in caught.value.message
    # And is no harm.
    total = adasum.allreduce(tf.ones(2), "sum", communicator)
    assert total.numpy().tolist() == [communicator.size] * 2


def test_local_reduction_must_fit():
    with pytest.raises(ValueError, match="Received: 'median'"):
        adasum.allreduce(tf.ones(2), local_reduction="median")
    with pytest.raises(ValueError, match=r"'adasum' where local_reduction='mean'.*Received: 'sum'"):
        adasum.allreduce(tf.ones(2), "sum", local_reduction="mean")
