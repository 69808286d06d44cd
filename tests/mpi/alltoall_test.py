"""alltoall on real ranks: every dtype, even and uneven splits, bad ones refused on all ranks."""

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.mpi.rows import DTYPES_IN_BOTH, check_refused, in_both, rows_of

# How many rows `giver` deals to `taker`; None: the same number to all, which no splits say.
SPLITS = {
    "even": None,
    "uneven": lambda giver, taker: (giver + 2 * taker) % 4,
    "only to the next": lambda giver, taker: 3 * ((giver + 1) % adasum.size() == taker),
    "all to rank 0": lambda giver, taker: (giver + 1) * (taker == 0),
    "nothing": lambda giver, taker: 0,
}
EACH = 2
ROW_SHAPES = [(), (3, 2), (2, 0), (5_000,)]


def _splits_of(splits, giver):
    if splits is None:
        return [EACH] * adasum.size()
    return [splits(giver, taker) for taker in range(adasum.size())]


def _want(splits, row_shape, dtype):
    """What this rank gets, and how much from each."""
    rank = adasum.rank()
    parts, counts = [], []
    for giver in range(adasum.size()):
        dealt = _splits_of(splits, giver)
        begin = sum(dealt[:rank])
        rows = rows_of(giver, sum(dealt), row_shape, dtype)
        parts.append(rows[begin : begin + dealt[rank]])
        counts.append(dealt[rank])
    return np.concatenate(parts), counts


@pytest.mark.parametrize(("dtype", "compiled"), DTYPES_IN_BOTH)
def test_rows_go_where_they_are_dealt(dtype, compiled):
    """All row shapes in one operation, all splits one after the other."""

    def deal(splits, *tensors):
        return adasum.alltoall(list(tensors), splits)

    if compiled:
        deal = tf.function(deal, reduce_retracing=True)
    for splits in SPLITS.values():
        mine = _splits_of(splits, adasum.rank())
        rows = [
            tf.constant(rows_of(adasum.rank(), sum(mine), shape, dtype), dtype)
            for shape in ROW_SHAPES
        ]
        received, counts = deal(None if splits is None else tf.constant(mine), *rows)
        for shape, result in zip(ROW_SHAPES, received, strict=True):
            want, from_each = _want(splits, shape, dtype)
            assert result.dtype == dtype
            assert result.shape == want.shape
            assert result.numpy().tobytes() == want.tobytes()
            assert counts.numpy().tolist() == from_each


def test_back_and_forth():
    """A structure of mixed dtypes; the counts that came are the splits of the way back."""
    rank, size = adasum.rank(), adasum.size()
    splits = tf.constant(_splits_of(SPLITS["uneven"], rank), tf.int32)
    mine = {
        "ids": tf.constant(rows_of(rank, int(sum(splits)), (), "int64")),
        "values": (tf.constant(rows_of(rank, int(sum(splits)), (700,), "float32")),),
    }
    there, counts = adasum.alltoall(mine, splits, name="there")
    back, returned = adasum.alltoall(there, counts, name="back")
    tf.nest.assert_same_structure(mine, back)
    for before, after in zip(tf.nest.flatten(mine), tf.nest.flatten(back), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(returned, splits)
    assert counts.shape == [size]


def test_shapes_are_known_in_graphs():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def deal(rows):
        received, counts = adasum.alltoall(rows)
        assert received.shape.as_list() == [None, 3]
        assert counts.shape.as_list() == [None]
        return received

    np.testing.assert_array_equal(deal(tf.ones([adasum.size(), 3])), np.ones([adasum.size(), 3]))


def test_splits_that_do_not_deal_the_rows_are_refused_on_all_ranks():
    """Passed by the last rank alone; the others' would do."""
    size, last = adasum.size(), adasum.size() - 1
    good = [1] * size
    for bad, rows, told in [
        (
            [1] * (size - 1) + [2],
            size,
            f"splits [{','.join(['1'] * (size - 1) + ['2'])}] of {size}",
        ),
        ([1] * (size + 1), size + 1, f"of {size + 1} rows. Pass one count for each rank"),
        ([-1] + [1] * last, size, "splits [-1"),
    ]:
        is_odd = adasum.rank() == last
        check_refused(
            lambda x, splits=bad if is_odd else good: adasum.alltoall(x, splits, name="bad"),
            tf.zeros([rows if is_odd else size, 2]),
            False,
            f"Expected rows for each of {size} ranks. Received: rank {last} passed splits",
            told,
            needs_others=False,
        )


@in_both
def test_rows_that_cannot_be_dealt_are_refused_on_all_ranks(compiled):
    size, last = adasum.size(), adasum.size() - 1
    for mine, told in [
        ([tf.zeros([3]), tf.zeros([4])], "rank 0 passed tensors of [3,4] rows. Pass as many of"),
        ([tf.zeros([])], "rank 0 passed scalars. Deal tf.reshape(tensor, [1])"),
    ]:
        check_refused(adasum.alltoall, mine, compiled, told, needs_others=False)
    rows = tf.zeros([size + (adasum.rank() == last)])
    told = f"rank {last} passed {size + 1} rows, which can't be dealt evenly. Pass splits"
    check_refused(adasum.alltoall, rows, compiled, told)


def test_unlike_rows_are_refused_on_all_ranks():
    size, last = adasum.size(), adasum.size() - 1
    check_refused(
        lambda x: adasum.alltoall(x, name="rows"),
        tf.zeros([size, 4 if adasum.rank() == last else 3]),
        False,
        f"rank {last} passed alltoall of float rows of [4].",
        " passed alltoall of float rows of [3]; rank",
    )


@pytest.mark.parametrize("splits", [[], [0.5], 3, [[1]]])
def test_splits_are_whole_numbers(splits):
    with pytest.raises(ValueError, match="one whole number for each rank"):
        adasum.alltoall(tf.zeros([3]), splits)


def test_nothing_to_deal():
    with pytest.raises(ValueError, match="at least one tensor"):
        adasum.alltoall([])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received: string\. Objects"):
        adasum.alltoall(tf.constant(["a"]))
