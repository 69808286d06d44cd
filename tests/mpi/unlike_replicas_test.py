"""Ranks with unlike numbers of replicas reduce over all of them, each of which counts alike."""

import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tests.mpi.rows import check_refused, in_both
from tests.reference import adasum as adasum_reference
from tests.reference import compressed
from tf_adasum import compression
from tf_adasum.collectives.allreduce_replicas import (
    allreduce_replicas,
    measured_allreduce_replicas,
)
from tf_adasum.collectives.compressed_allreduce import Lost, encoded_allreduce_replicas

# The first rank has most, the last one, or one between; 7 to 10 leaves of 5 ranks.
ALL_COUNTS = [[2, 1, 1, 2, 1], [1, 2, 1, 1, 3], [1, 1, 3, 2, 3]]
unlike = pytest.mark.parametrize("counts", ALL_COUNTS, ids=str)
# Swapped whole, in one step, in several, and one that streams.
SHAPES = [(3,), (), (0, 5), (7, 333), (300_001,)]
LONG = (2_500_000,)
REDUCTIONS = {
    "float32": ["adasum", "mean", "sum", "min", "max", "product"],
    "float64": ["adasum", "mean"],
    "bfloat16": ["adasum"],
    "float16": ["adasum"],
    "int64": ["sum"],
}


def _counts(counts):
    return counts[: adasum.size()]


def _own(counts, leaves):
    first = sum(counts[: adasum.rank()])
    return leaves[first : first + counts[adasum.rank()]]


def _leaves(counts, dtype="float32", shapes=SHAPES):
    """Arrays of all leaves."""
    draws = [np.random.default_rng([len(counts), leaf]) for leaf in range(sum(counts))]
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    return [[(3 * draw.normal(size=s)).astype(dtype) for s in shapes] for draw in draws]


def _same_everywhere(results):
    texts = MPI.COMM_WORLD.allgather([tensor.numpy().tobytes() for tensor in results])
    return all(text == texts[0] for text in texts)


def _tensors(leaves):
    return [[tf.constant(array) for array in leaf] for leaf in leaves]


@unlike
@pytest.mark.parametrize(
    ("dtype", "reduction"), [(dtype, each) for dtype, all_ in REDUCTIONS.items() for each in all_]
)
def test_the_result_is_that_of_all_leaves(dtype, reduction, counts):
    counts = _counts(counts)
    leaves = _leaves(counts, dtype)
    own = _tensors(_own(counts, leaves))
    results = allreduce_replicas(own, reduction, name="unlike", replica_counts=counts)
    for i, result in enumerate(results):
        error_model.check(reduction, result.numpy(), [leaf[i] for leaf in leaves])
    assert _same_everywhere(results)


@unlike
def test_long_vectors_in_a_function(counts):
    counts = _counts(counts)
    leaves = _leaves(counts, shapes=[LONG, (5,)])
    own = _own(counts, leaves)

    @tf.function
    def reduce():
        return allreduce_replicas(_tensors(own), name="long", replica_counts=counts)

    for _ in range(2):
        results = reduce()
        for i, result in enumerate(results):
            error_model.check("adasum", result.numpy(), [leaf[i] for leaf in leaves])
        assert _same_everywhere(results)


@unlike
@pytest.mark.parametrize("local", ["sum", "mean"])
def test_replicas_of_a_host_by_another_reduction(local, counts):
    counts = _counts(counts)
    leaves = _leaves(counts)
    results = allreduce_replicas(
        _tensors(_own(counts, leaves)), local_reduction=local, replica_counts=counts
    )
    for i, result in enumerate(results):
        error_model.check(local, result.numpy(), [leaf[i] for leaf in leaves])


@unlike
def test_norms_are_of_all_leaves(counts):
    counts = _counts(counts)
    leaves = _leaves(counts)
    own = _tensors(_own(counts, leaves))
    results, norms = measured_allreduce_replicas(own, replica_counts=counts)
    for i, (result, (of_result, of_leaves)) in enumerate(zip(results, norms.numpy())):
        vectors = [np.float64(leaf[i]) for leaf in leaves]
        error_model.check("adasum", result.numpy(), [leaf[i] for leaf in leaves])
        np.testing.assert_allclose(of_leaves, sum(np.sum(v**2) for v in vectors), rtol=1e-5)
        expected = np.sum(adasum_reference.reduce(vectors) ** 2)
        np.testing.assert_allclose(of_result, expected, rtol=1e-4, atol=1e-12)


@unlike
@pytest.mark.parametrize("reduction", ["adasum", "mean", "sum"])
def test_encoded_tensors_and_what_is_lost_of_them(reduction, counts):
    counts = _counts(counts)
    codec = compression.Float16()
    rank, num_ranks = adasum.rank(), len(counts)
    leaves = _leaves(counts, shapes=[(1000,), (7, 333), (70_001,)])
    shapes = [array.shape for array in leaves[0]]
    most = [compressed.parts(array.size, num_ranks)[0].stop for array in leaves[0]]
    lost = [[np.zeros(array.size, np.float32) for array in leaf] for leaf in leaves]
    of_parts = [[np.zeros(size, np.float32) for _ in counts] for size in most]
    own_lost = Lost(
        [[tf.Variable(tf.zeros(shape)) for shape in shapes] for _ in _own(counts, leaves)],
        [tf.Variable(tf.zeros([size])) for size in most],
    )

    def reduce(vectors):
        return error_model.reference(reduction, vectors)

    for _ in range(2):
        results = encoded_allreduce_replicas(
            _tensors(_own(counts, leaves)),
            codec,
            own_lost,
            reduction,
            adasum.world(),
            "encoded",
            replica_counts=counts,
        )
        assert _same_everywhere(results)
        for i, result in enumerate(results):
            vectors = [leaf[i].reshape(-1) for leaf in leaves]
            kept = [of_leaf[i] for of_leaf in lost]
            expected, after, of_parts[i] = compressed.allreduce(
                vectors, reduce, _through_float16, kept, of_parts[i]
            )
            for of_leaf, each in zip(lost, after):
                of_leaf[i] = each
            scale = max(np.abs(vector).max() for vector in [expected, *vectors])
            np.testing.assert_allclose(result.numpy().reshape(-1), expected, atol=2e-3 * scale)
            for mine, each in zip(own_lost.residuals, _own(counts, lost)):
                np.testing.assert_array_equal(mine[i].numpy().reshape(-1), each[i])
    assert own_lost.part_residuals[0].shape == of_parts[0][rank].shape


def _through_float16(values):
    return values.astype(np.float16).astype(np.float32)


def test_after_each_other_and_between_ranks_of_one_replica():
    """Threads and memory are made where a rank has more replicas than before, and kept."""
    for turn in range(2):
        for given in ([1, 1, 1, 1, 1], *ALL_COUNTS, [2, 2, 2, 2, 2]):
            counts = _counts(given)
            leaves = _leaves(counts, shapes=[(50,), (20_000,)])
            named = [] if len(set(counts)) == 1 else counts
            own = _tensors(_own(counts, leaves))
            results = allreduce_replicas(own, name=f"turn {turn}", replica_counts=named)
            for i, result in enumerate(results):
                error_model.check("adasum", result.numpy(), [leaf[i] for leaf in leaves])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_flow_back_to_each_leaf(reduction):
    counts = _counts([2, 1, 3, 1, 1])
    own = [tf.constant([1.0 * (1 + replica), 2.0]) for replica in range(counts[adasum.rank()])]
    with tf.GradientTape() as tape:
        tape.watch(own)
        (reduced,) = allreduce_replicas(
            [[each] for each in own], reduction, name="flows", replica_counts=counts
        )
        loss = tf.reduce_sum(reduced * (1.0 + adasum.rank()))
    upstream = sum(range(1, 1 + adasum.size()))
    expected = upstream if reduction == "sum" else upstream / sum(counts)
    for gradient in tape.gradient(loss, own):
        np.testing.assert_allclose(gradient, np.full(2, expected), rtol=1e-6)


@in_both
def test_unlike_lists_of_numbers_are_refused(compiled):
    def reduce(leaves):
        # True of this rank, and of no other.
        counts = [1] * adasum.size()
        counts[adasum.rank()] = 2
        return allreduce_replicas(leaves, name="unlike lists", replica_counts=counts)

    leaves = [[tf.ones([3])], [tf.ones([3])]]
    check_refused(reduce, leaves, compiled, "from [2", "replicas")


@in_both
@pytest.mark.parametrize(
    "counts", [[1] * (adasum.size() + 1), [2] * adasum.size(), [0] * adasum.size()], ids=str
)
def test_numbers_that_are_not_those_of_the_ranks_are_refused(counts, compiled):
    def reduce(leaf):
        return allreduce_replicas([leaf], name="wrong", replica_counts=counts)

    check_refused(reduce, [tf.ones([3])], compiled, "the number of replicas", needs_others=False)
