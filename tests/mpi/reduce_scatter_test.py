"""reduce_scatter on real ranks, against the slice of allreduce that a rank gets, bit by bit."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.contract import error_model
from tests.mpi.rows import check_refused, in_both
from tf_adasum.collectives import reductions

REDUCTIONS = [name for name in reductions.names() if name != "adasum"]
DTYPES = [*error_model.LIMITS, "int32", "int64", "bool"]
# Fewer rows than ranks, none, some ranks one more, long enough for several chunks.
SHAPES = [(1,), (0, 3), (7,), (12, 5), (6, 0), (3, 2, 2), (61, 4_000)]


def _inputs(dtype):
    """All ranks' tensors, the same on every rank."""
    rng = np.random.default_rng(adasum.size())
    wide = [[rng.normal(size=shape) for shape in SHAPES] for _ in range(adasum.size())]
    if dtype == "bool":
        return [[x > -0.5 for x in of_rank] for of_rank in wide]
    scale = 100 if dtype.startswith("int") else 1
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return [[(scale * x).astype(dtype) for x in of_rank] for of_rank in wide]


def _share(array):
    """Rows of this rank: the first ranks have one more where they can't be dealt evenly."""
    return np.array_split(array, adasum.size())[adasum.rank()]


CASES = [
    *[(reduction, dtype, False) for reduction in REDUCTIONS for dtype in DTYPES],
    *[("mean", dtype, True) for dtype in DTYPES],
]


@pytest.mark.parametrize(("reduction", "dtype", "compiled"), CASES)
def test_shares_of_the_reduction(reduction, dtype, compiled):
    inputs = _inputs(dtype)
    mine = [tf.constant(array) for array in inputs[adasum.rank()]]

    def scatter(*tensors):
        return adasum.reduce_scatter(list(tensors), reduction)

    shares = (tf.function(scatter) if compiled else scatter)(*mine)
    whole = adasum.allreduce(mine, reduction)
    for number, share in enumerate(shares):
        assert share.numpy().tobytes() == _share(whole[number].numpy()).tobytes()
        error_model.check(reduction, share.numpy(), [_share(of_rank[number]) for of_rank in inputs])
    for tensor, array in zip(mine, inputs[adasum.rank()], strict=True):
        assert tensor.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("name", [None, "shares"])
def test_structure_of_mixed_dtypes(name):
    size = adasum.size()
    mine = {"a": tf.range(size), "b": (tf.fill([2 * size, 3], 0.5), [])}
    shares = adasum.reduce_scatter(mine, "mean", name=name)
    np.testing.assert_array_equal(shares["a"], [adasum.rank()])
    np.testing.assert_array_equal(shares["b"][0], np.full([2, 3], 0.5))
    assert shares["b"][1] == []


def test_shapes_are_known_in_graphs():
    @tf.function(input_signature=[tf.TensorSpec([8, 3])])
    def scatter(tensor):
        share = adasum.reduce_scatter(tensor)
        assert share.shape.as_list() == [None, 3]
        return share

    np.testing.assert_array_equal(scatter(tf.ones([8, 3])), _share(np.full([8, 3], adasum.size())))


@in_both
def test_unlike_shapes_are_refused_on_all_ranks(compiled):
    last = adasum.size() - 1
    check_refused(
        lambda x: adasum.reduce_scatter(x, name="shares"),
        tf.zeros([4, 2] if adasum.rank() == last else [5, 2]),
        compiled,
        f"rank {last} passed reduce_scatter(sum) of 1 float32 tensors [4,2].",
        " passed reduce_scatter(sum) of 1 float32 tensors [5,2]; rank",
    )


@in_both
def test_scalars_are_refused_on_all_ranks(compiled):
    check_refused(
        adasum.reduce_scatter,
        [tf.zeros([2]), tf.zeros([])],
        compiled,
        "Received: scalars as tensor 1. Use allreduce",
        needs_others=False,
    )


def test_what_cannot_be_scattered():
    with pytest.raises(ValueError, match=r"Received: 'adasum', which looks.*slice of its result"):
        adasum.reduce_scatter(tf.zeros([2]), "adasum")
    with pytest.raises(ValueError, match="Received: 'median'"):
        adasum.reduce_scatter(tf.zeros([2]), "median")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"sum\. Received: complex64"):
        adasum.reduce_scatter(tf.zeros([2], tf.complex64))
