"""allgather on real ranks: every dtype, any number of rows on each rank, unlike ranks refused."""

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.mpi.rows import DTYPES_IN_BOTH, check_refused, in_both, rows_of

# How many rows each rank has: some have none, or all.
NUM_ROWS = {
    "one each": lambda rank: 1,
    "rank + 1": lambda rank: rank + 1,
    "some have none": lambda rank: 3 * (rank % 2),
    "the last has all": lambda rank: 5 * (rank == adasum.size() - 1),
    "none": lambda rank: 0,
}
ROW_SHAPES = [(), (1,), (3, 2), (2, 0), (5_000,)]


def _check(gathered, num_rows, row_shape, dtype):
    parts = [rows_of(rank, num_rows(rank), row_shape, dtype) for rank in range(adasum.size())]
    want = np.concatenate(parts)
    assert gathered.dtype == dtype
    assert gathered.shape == want.shape
    assert gathered.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize(("dtype", "compiled"), DTYPES_IN_BOTH)
def test_rows_of_all_ranks(dtype, compiled):
    """All row shapes and numbers of rows in one operation."""
    cases = [(shape, num_rows) for shape in ROW_SHAPES for num_rows in NUM_ROWS.values()]

    def gather(*tensors):
        return adasum.allgather(list(tensors))

    rank = adasum.rank()
    mine = [
        tf.constant(rows_of(rank, num_rows(rank), shape, dtype), dtype) for shape, num_rows in cases
    ]
    results = (tf.function(gather) if compiled else gather)(*mine)
    for (shape, num_rows), result in zip(cases, results, strict=True):
        _check(result, num_rows, shape, dtype)


def test_structure_of_mixed_dtypes():
    rank = adasum.rank()
    mine = {"a": rows_of(rank, 2, (3,), "int64"), "b": (rows_of(rank, rank, (), "float16"), [])}
    result = adasum.allgather(mine)
    assert sorted(result) == ["a", "b"]
    _check(result["a"], lambda rank: 2, (3,), "int64")
    _check(result["b"][0], lambda rank: rank, (), "float16")
    assert result["b"][1] == []
    assert adasum.allgather([]) == []


def test_many_mebibytes_from_one_rank():
    """More than a message of shared memory; the others have a row each."""

    def num_rows(rank):
        return 1 if rank else 700

    _check(
        adasum.allgather(rows_of(adasum.rank(), num_rows(adasum.rank()), (1_500,), "float32")),
        num_rows,
        (1_500,),
        "float32",
    )


def test_names_in_any_order():
    """In a function, named gathers keep no order; each finds its own."""

    @tf.function
    def gather(rows):
        order = ["a", "b", "c"] if adasum.rank() % 2 else ["c", "a", "b"]
        results = {name: adasum.allgather(rows + ord(name), name=name) for name in order}
        return [results[name] for name in "abc"]

    mine = rows_of(adasum.rank(), adasum.rank() + 1, (2,), "int32")
    all_rows = adasum.allgather(mine)
    for name, result in zip("abc", gather(mine), strict=True):
        np.testing.assert_array_equal(result, all_rows + ord(name))


def test_lengths_may_change_in_a_loop():
    @tf.function
    def lengths():
        total = tf.constant(0)
        for step in tf.range(10):
            rows = tf.zeros([step * (adasum.rank() + 1), 3])
            total += tf.shape(adasum.allgather(rows))[0]
        return total

    size = adasum.size()
    assert int(lengths()) == 45 * size * (size + 1) // 2


def test_shapes_are_known_in_graphs():
    @tf.function(input_signature=[tf.TensorSpec([4, 3]), tf.TensorSpec(None)])
    def gather(a, b):
        x, y = adasum.allgather([a, b])
        assert x.shape.as_list() == [None, 3]
        assert y.shape.rank is None
        return x, y

    x, y = gather(tf.ones([4, 3]), tf.ones([2]))
    assert x.shape == [4 * adasum.size(), 3]
    assert y.shape == [2 * adasum.size()]


@in_both
def test_unlike_rows_are_refused_on_all_ranks(compiled):
    last = adasum.size() - 1
    is_odd = adasum.rank() == last
    for odd, others, odd_text, others_text in [
        (tf.zeros([2, 4]), tf.zeros([2, 3]), "float rows of [4]", "float rows of [3]"),
        (tf.zeros([2, 3, 1]), tf.zeros([2, 3]), "float rows of [3,1]", "float rows of [3]"),
        (tf.zeros([2]), tf.zeros([2], tf.int32), "float rows of []", "int32 rows of []"),
        ([], tf.zeros([2]), "float rows of [0]", "float rows of []"),
    ]:
        check_refused(
            lambda x: adasum.allgather(x, name="rows"),
            odd if is_odd else others,
            compiled,
            f"rank {last} passed allgather of {odd_text}.",
            f" passed allgather of {others_text}; rank",
        )


def test_a_scalar_beside_rows_is_refused_on_all_ranks():
    last = adasum.size() - 1
    check_refused(
        lambda x: adasum.allgather(x, name="rows"),
        tf.zeros([] if adasum.rank() == last > 0 else [2]),
        False,
        f"rank {last} passed allgather of float scalars.",
    )


@in_both
def test_scalars_are_refused_on_all_ranks(compiled):
    check_refused(
        adasum.allgather,
        [tf.zeros([2]), tf.zeros([])],
        compiled,
        "at least one dimension",
        "Received: scalars as tensor 1. Gather tf.reshape(tensor, [1])",
        needs_others=False,
    )


def test_rows_that_nobody_can_count():
    """Of no bytes, so that TensorFlow has such tensors."""
    check_refused(
        adasum.allgather,
        [tf.zeros([2**45, 0])],
        False,
        f"at most {2**44} rows in a tensor",
        f"Received: {2**45} on rank 0. Pass it in parts",
        needs_others=False,
    )
    shape = (0, 2**40, 2**40)
    assert adasum.allgather(tf.reshape(tf.zeros([0]), shape)).shape == shape
    assert adasum.reduce_scatter(tf.reshape(tf.zeros([0]), shape)).shape == shape


def test_texts_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received: string\. Objects"):
        adasum.allgather(tf.constant(["a"]))


def test_a_rank_that_has_closed():
    part = adasum.world().split(0)
    if adasum.rank() == adasum.size() - 1:
        part.close()
        own = "was closed"
    else:
        own = f"rank {adasum.size() - 1} has closed this communicator"
    with pytest.raises(tf.errors.UnavailableError, match=own):
        adasum.allgather(tf.zeros([adasum.rank() + 1]), part)
    part.close()
