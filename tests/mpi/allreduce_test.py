"""allreduce and allreduce_replicas on real ranks, against the NumPy reference on all ranks' inputs.

Every rank draws the inputs of all ranks from one seed, so that each checks its own result; results
are then compared bit by bit through mpi4py, which the library under test does not use for them.
"""

import time

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tf_adasum.collectives import reductions
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

FLOATS = list(error_model.LIMITS)
OTHERS = ["int32", "int64", "bool"]
SHAPES = [(), (1,), (3,), (0,), (17,), (5, 7), (2, 0, 3), (64,), (1000,), (33, 129)]
CASES = [
    (reduction, dtype)
    for reduction in reductions.names()
    for dtype in (FLOATS if reductions.ALL[reduction].floats_only else FLOATS + OTHERS)
]


def _draw(rng, shape, dtype):
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype.startswith("int"):
        return rng.integers(-1000, 1000, shape).astype(dtype)
    values = np.asarray(rng.normal(size=shape))
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _inputs(leaves, dtype, shapes=SHAPES, seed=0):
    rng = np.random.default_rng([seed, leaves])
    return [[_draw(rng, shape, dtype) for shape in shapes] for _ in range(leaves)]


def _bytes(tensors):
    return [tensor.numpy().tobytes() for tensor in tensors]


def _assert_alike(results):
    mine = [result.tobytes() for result in results]
    assert MPI.COMM_WORLD.allgather(mine) == [mine] * MPI.COMM_WORLD.size


def _check(reduction, results, inputs):
    results = [result.numpy() for result in results]
    assert len(results) == len(inputs[0])
    for variable, result in enumerate(results):
        error_model.check(reduction, result, [of_leaf[variable] for of_leaf in inputs])
    _assert_alike(results)


def test_places_are_mpis():
    world = MPI.COMM_WORLD
    assert (adasum.rank(), adasum.size()) == (world.rank, world.size)
    on_host = world.Split_type(MPI.COMM_TYPE_SHARED)
    assert (adasum.local_rank(), adasum.local_size()) == (on_host.rank, on_host.size)
    on_host.Free()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize(("reduction", "dtype"), CASES)
def test_agrees_with_the_reference(reduction, dtype, compiled):
    inputs = _inputs(adasum.size(), dtype)

    def reduce(*tensors):
        return adasum.allreduce(list(tensors), reduction)

    if compiled:
        reduce = tf.function(reduce)
    tensors = [tf.constant(array) for array in inputs[adasum.rank()]]
    results = reduce(*tensors)
    _check(reduction, results, inputs)
    again = reduce(*tensors)
    assert _bytes(again) == _bytes(results)
    for tensor, array in zip(tensors, inputs[adasum.rank()], strict=True):
        assert tensor.numpy().tobytes() == array.tobytes()  # the op's inputs stay as they were


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", reductions.names())
def test_any_grouping(reduction, dtype):
    inputs = _inputs(adasum.size(), dtype, seed=1)
    for group in ([0], [9], [8, 1, 2, 0], [7, 3, 4, 5, 6], list(range(10))):
        mine = [tf.constant(inputs[adasum.rank()][index]) for index in group]
        results = adasum.allreduce(mine, reduction, name=f"group {group} {dtype} {reduction}")
        _check(reduction, results, [[of_rank[i] for i in group] for of_rank in inputs])


def test_structures_and_mixed_dtypes():
    lists = {dtype: _inputs(adasum.size(), dtype, [(4,), (70,)], seed=2) for dtype in FLOATS}
    mine = {
        dtype: (tf.constant(a), [tf.constant(b)])
        for dtype, (a, b) in ((dtype, lists[dtype][adasum.rank()]) for dtype in FLOATS)
    }
    result = adasum.allreduce(mine)
    assert set(result) == set(FLOATS)
    for dtype, (a, (b,)) in result.items():
        _check("adasum", [a, b], lists[dtype])


@pytest.mark.parametrize(
    "structure", ["t", "[t]", "[t, []]", "[[t]]", "(t,)", "[t, (t, {'a': t})]"]
)
def test_structures_come_back(structure):
    tensors = eval(structure, {"t": tf.constant([1.0, 2.0])})
    result = adasum.allreduce(tensors, "mean")
    tf.nest.assert_same_structure(tensors, result)
    assert [x.numpy().tolist() for x in tf.nest.flatten(result)] == [[1.0, 2.0]] * len(
        tf.nest.flatten(tensors)
    )


def test_many_small_and_some_large_tensors():
    # More than one block of shared memory (1 MiB), and a tensor larger than a block.
    shapes = [(7,)] * 100 + [(300_000,), (11,), (100_000,), (250_000,)] + [(1,)] * 20
    inputs = _inputs(adasum.size(), "float32", shapes, seed=3)
    results = adasum.allreduce([tf.constant(array) for array in inputs[adasum.rank()]])
    _check("adasum", results, inputs)


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("reduction", reductions.names())
def test_replicas_are_leaves(reduction, replicas):
    for dtype in FLOATS:
        inputs = _inputs(adasum.size() * replicas, dtype, seed=4)
        first = adasum.rank() * replicas
        leaves = [
            [tf.constant(array) for array in inputs[leaf]]
            for leaf in range(first, first + replicas)
        ]
        name = f"{reduction} {dtype} {replicas}"
        results = allreduce_replicas(leaves, reduction, name=name)
        _check(reduction, results, inputs)


def test_replicas_in_a_function():
    inputs = _inputs(adasum.size() * 2, "float32", seed=5)
    leaves = [[tf.constant(a) for a in inputs[adasum.rank() * 2 + replica]] for replica in (0, 1)]
    results = tf.function(lambda: allreduce_replicas(leaves, "adasum", name="replicas"))()
    _check("adasum", results, inputs)


def test_replicas_must_be_alike():
    with pytest.raises(ValueError, match=r"Received: \['float64'\] on replica 1"):
        allreduce_replicas([[tf.zeros(2)], [tf.zeros(2, tf.float64)]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received: \[3\] on replica 1"):
        allreduce_replicas([[tf.zeros(2)], [tf.zeros(3)]])
    with pytest.raises(ValueError, match=r"at least one replica\. Received: none"):
        allreduce_replicas([])


def test_unknown_reduction():
    with pytest.raises(ValueError, match="Received: 'median'"):
        adasum.allreduce(tf.zeros(2), "median")


@pytest.mark.parametrize(
    ("reduction", "dtype"), [("adasum", "int32"), ("adasum", "bool"), ("sum", "complex64")]
)
def test_dtypes_that_cannot_be_reduced(reduction, dtype):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{reduction}. Received: {dtype}"):
        adasum.allreduce([tf.zeros(2), tf.zeros(2, dtype)], reduction)


def test_shapes_are_known_in_graphs():
    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([2, 5])])
    def reduce(a, b):
        x, y = adasum.allreduce([a, b])
        assert x.shape.as_list() == [None, 3]
        assert y.shape.as_list() == [2, 5]
        return x, y

    x, y = reduce(tf.ones([4, 3]), tf.ones([2, 5]))
    np.testing.assert_allclose(x, np.ones([4, 3]), rtol=1e-6)
    np.testing.assert_allclose(y, np.ones([2, 5]), rtol=1e-6)


def test_many_steps_in_a_graph_loop():
    inputs = _inputs(adasum.size(), "float64", [(50,)], seed=5)
    mine = tf.constant(inputs[adasum.rank()][0])

    @tf.function
    def steps():
        total = tf.zeros_like(mine)
        for step in tf.range(20):
            total += adasum.allreduce(mine * tf.cast(step, tf.float64), "sum", name="step")
        return total

    _check("sum", [steps() / 190], inputs)


@pytest.mark.parametrize("name", [None, "same"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_those_of_one_name_keep_their_order_in_a_function(name, is_nested):
    """Ranks come at unlike times, and find several of them waiting."""
    size, rank = adasum.size(), adasum.rank()

    def reduce(x):
        total = adasum.allreduce(x, "sum", name=name)
        return total, adasum.allgather(x[None], name=name and f"{name} rows")

    call = tf.function(reduce) if is_nested else reduce

    @tf.function
    def steps(first):
        return [call(first + step) for step in range(6)]

    for repetition in range(10):
        if repetition % size == rank:
            time.sleep(0.01)
        for step, (total, rows) in enumerate(steps(tf.constant(float(rank)))):
            np.testing.assert_array_equal(rows, np.arange(size) + step)
            assert total == size * step + size * (size - 1) / 2


def test_first_use_in_a_graph_of_tensorflow_1():
    """What is made there is a tensor of that graph: it is of no use outside."""
    with tf.Graph().as_default():
        group = adasum.world().split(color=0)
        summed = adasum.allreduce(tf.ones([2]), "sum", group, name="in the graph")
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run(summed), [adasum.size()] * 2)
    eager = adasum.allreduce(tf.ones([2]), "sum", group)
    np.testing.assert_array_equal(eager, [adasum.size()] * 2)
    group.close()
