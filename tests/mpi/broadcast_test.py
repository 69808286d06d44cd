"""broadcast on real ranks: every dtype, from every root."""

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum

DTYPES = [
    *("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32"),
    *("uint32", "int64", "uint64", "bool", "complex64", "complex128"),
]
SHAPES = [(), (1,), (0,), (5,), (3, 4), (70_000,)]


def _of_rank(rank, shape, dtype):
    """What `rank` holds, as every rank can work out."""
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 50 + rank
    return tf.cast(values % 2 if dtype == "bool" else values, dtype)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_root(dtype, compiled):
    # Each root is a graph of its own, which takes longer than to run it.
    roots = {0, adasum.size() - 1} if compiled else range(adasum.size())
    for root in roots:

        def send(*tensors):
            return adasum.broadcast(list(tensors), root=root)  # noqa: B023

        if compiled:
            send = tf.function(send)
        results = send(*[_of_rank(adasum.rank(), shape, dtype) for shape in SHAPES])
        for shape, result in zip(SHAPES, results, strict=True):
            expected = _of_rank(root, shape, dtype)
            assert result.dtype == expected.dtype
            assert result.shape == expected.shape
            assert result.numpy().tobytes() == expected.numpy().tobytes()


def test_structure_of_mixed_dtypes():
    last = adasum.size() - 1
    mine = {"a": _of_rank(adasum.rank(), (3,), "int64"), "b": [tf.constant(adasum.rank() + 0.5)]}
    result = adasum.broadcast(mine, root=last)
    np.testing.assert_array_equal(result["a"], _of_rank(last, (3,), "int64"))
    assert float(result["b"][0]) == last + 0.5


def test_nothing_to_send():
    assert adasum.broadcast([]) == []


def test_names_in_any_order():
    """In a function, named broadcasts keep no order; each finds its own."""

    @tf.function
    def send():
        order = ["a", "b", "c"] if adasum.rank() % 2 else ["c", "a", "b"]
        mine = tf.constant([adasum.rank()])
        results = {name: adasum.broadcast(mine + ord(name), name=name) for name in order}
        return [results[name] for name in ("a", "b", "c")]

    assert [int(result[0]) for result in send()] == [ord(name) for name in ("a", "b", "c")]


def test_inputs_stay_as_they_are():
    mine = tf.constant([adasum.rank(), 7])
    adasum.broadcast(mine)
    np.testing.assert_array_equal(mine, [adasum.rank(), 7])


@pytest.mark.parametrize("root", [-1, 1000])
def test_root_outside_of_the_ranks(root):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received: {root}"):
        adasum.broadcast(tf.zeros(2), root=root)


LONG_SHAPES = [(3,), (70_000,), (2_000_000,), (0,), (1_100_000,)]


def _check_long_tensors(communicator):
    """Longer than messages: read where they lie, or in pieces, by ranks that share memory."""
    for root in range(adasum.size()):
        mine = [_of_rank(adasum.rank(), shape, "float32") for shape in LONG_SHAPES]
        results = adasum.broadcast(mine, root=root, communicator=communicator)
        for shape, result in zip(LONG_SHAPES, results, strict=True):
            np.testing.assert_array_equal(result, _of_rank(root, shape, "float32"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_copy": False},
        {"zero_copy": False, "cross_memory": False},
        {"shared_memory": False},
    ],
)
def test_long_tensors(options):
    communicator = adasum.world().split(color=0, options=options)
    _check_long_tensors(communicator)
    communicator.close()


@pytest.mark.parametrize("hosts", [2, 3])
def test_hosts_of_several_ranks(hosts, monkeypatch):
    monkeypatch.setenv("TF_ADASUM_HOST", str(adasum.rank() * hosts // adasum.size()))
    communicator = adasum.world().split(color=0)
    _check_long_tensors(communicator)
    communicator.close()


def test_outputs_of_the_root_are_its_own():
    """A variable that is assigned afterwards changes no result of before."""
    variable = tf.Variable(tf.ones([100_000]))
    result = adasum.broadcast(variable)
    variable.assign_add(tf.ones([100_000]))
    variable.scatter_nd_update([[0]], [9.0])
    np.testing.assert_array_equal(result, np.ones(100_000))
