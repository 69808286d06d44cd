"""allreduce of tf.IndexedSlices on real ranks, beside the dense tensors in NumPy float64."""

import importlib

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from adasumrun import timeline
from tests.mpi.rows import check_refused, check_refused_by_one
from tf_adasum.collectives.sparse_allreduce import REDUCTIONS, sparse_allreduce_replicas

ROWS, COLUMNS = 40, 6
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-6, "float64": 1e-13}


def _random(leaf, count):
    draw = np.random.default_rng(1000 + leaf)
    return draw.integers(0, ROWS, count), draw.normal(size=(count, COLUMNS))


def _opposite(leaf):
    """Pairs that nearly cancel: too little is left to tell weights from the leaves' products."""
    indices, values = _random(leaf // 2, 9)
    sign = 1 - 2 * (leaf % 2)
    return indices, sign * values * (1 + 1e-3 * (leaf % 2))


# What leaf number `leaf` of `count` has: indices and values.
CASES = {
    "duplicates": lambda leaf, count: _random(leaf, 3 * ROWS),
    "few": lambda leaf, count: _random(leaf, 5),
    "some empty": lambda leaf, count: _random(leaf, 7 * (leaf % 2)),
    "all empty": lambda leaf, count: _random(leaf, 0),
    "one has rows": lambda leaf, count: _random(leaf, 7 * (leaf == count - 1)),
    "disjoint": lambda leaf, count: (
        np.arange(leaf, ROWS, count),
        _random(leaf, ROWS)[1][leaf::count],
    ),
    "identical": lambda leaf, count: _random(0, 9),
    "opposite": lambda leaf, count: _opposite(leaf),
    "zeros": lambda leaf, count: (np.arange(4), np.zeros((4, COLUMNS))),
}


def _dtype(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def _dense(indices, values, dtype):
    """As the leaf sends it: rows of one index added up in the dtype, in the order they come."""
    dense = np.zeros((ROWS, COLUMNS), _dtype(dtype))
    np.add.at(dense, indices, values.astype(_dtype(dtype)))
    return dense.astype(np.float64)


def _slices(indices, values, dtype):
    return tf.IndexedSlices(
        tf.constant(values.astype(_dtype(dtype))),
        tf.constant(indices),
        tf.constant([ROWS, COLUMNS]),
    )


def _check_same_on_all_ranks(slices, name):
    digest = [float(np.dot(np.arange(n := len(b := slices.indices.numpy())), b)), float(n)]
    raw = np.frombuffer(slices.values.numpy().tobytes(), np.uint8).astype(np.float64)
    digest += [raw.sum(), np.dot(np.arange(len(raw)), raw)]
    mine = tf.constant(digest, tf.float64)
    for bound in ("min", "max"):
        np.testing.assert_array_equal(adasum.allreduce(mine, bound, name=f"{name} {bound}"), mine)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("num_local", [1, 2])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_rows_are_reduced_as_dense_tensors(dtype, reduction, num_local, compiled):
    _check_all_cases(dtype, reduction, [num_local] * adasum.size(), compiled)


@pytest.mark.parametrize("counts", [[1, 2, 1, 3, 1], [3, 1, 1, 2, 2]], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ranks_with_unlike_numbers_of_replicas(reduction, counts):
    _check_all_cases("float32", reduction, counts[: adasum.size()], compiled=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_more_leaves_than_have_one_gram_matrix(reduction):
    """Of more than eight the tree is gone through level by level."""
    num_local = 8 // adasum.size() + 1
    _check_all_cases("float32", reduction, [num_local] * adasum.size(), compiled=False)


def _check_all_cases(dtype, reduction, counts, compiled):
    """All cases in one operation, so that the parts of a request keep apart."""
    number, num_local = sum(counts), counts[adasum.rank()]
    first = sum(counts[: adasum.rank()])
    replica_counts = counts if len(set(counts)) > 1 else []
    reference = importlib.import_module(f"tests.reference.{reduction}")

    def reduce(*flat):
        leaves = [flat[i * len(CASES) : (i + 1) * len(CASES)] for i in range(num_local)]
        return sparse_allreduce_replicas(
            leaves, reduction, name="rows", replica_counts=replica_counts
        )

    if compiled:
        reduce = tf.function(reduce)
    mine = [
        _slices(*case(first + replica, number), dtype)
        for replica in range(num_local)
        for case in CASES.values()
    ]
    for (label, case), slices in zip(CASES.items(), reduce(*mine), strict=True):
        leaves = [case(leaf, number) for leaf in range(number)]
        dense = [_dense(*leaf, dtype) for leaf in leaves]
        expected = reference.reduce(dense)
        present = np.unique(np.concatenate([indices for indices, _ in leaves]))
        np.testing.assert_array_equal(slices.indices, present, err_msg=label)
        got = np.zeros((ROWS, COLUMNS))
        got[slices.indices.numpy()] = slices.values.numpy().astype(np.float64)
        scale = max(np.abs(leaf).max() for leaf in dense) or 1.0
        error = np.abs(got - expected).max() / scale
        # What cancels at another level than the first leaves less to tell the weights from.
        factor = 2 * number if label == "opposite" else number
        assert error <= factor * TOLERANCES[dtype], label
        _check_same_on_all_ranks(slices, label)


def test_skewed_indices_leave_no_rank_with_much_more_than_its_share(tmp_path):
    """Indices of words: a tenth of them comes up nine times in ten."""
    rank, size, count = adasum.rank(), adasum.size(), 3000
    options = {"timeline": str(tmp_path / "trace")}
    communicator = adasum.world().split(color=0, options=options)
    draw = np.random.default_rng(rank)
    indices = (20_000 * draw.random(count) ** 4).astype(np.int64)
    values = draw.normal(size=(count, 64)).astype(np.float32)
    mine = tf.IndexedSlices(values, indices, [20_000, 64])
    reduced = adasum.allreduce(mine, "mean", communicator, name="words")
    communicator.close()
    # A split of the world gives ranks folders of their own, but one file is each rank's.
    (written,) = [path for path in tmp_path.iterdir() if str(rank) in path.name][:1]
    sent = dict(timeline.sent_bytes(timeline.read(written)))["words"]
    row_bytes = 8 + 4 * 64
    own, union = len(np.unique(indices)), reduced.indices.shape[0]
    even = row_bytes * (own + union) * (size - 1) / size
    # It may be less: rows that many leaves have are few in the union, which goes back.
    assert sent <= 1.25 * even + 10_000 * size


def test_one_percent_of_the_rows_is_a_small_part_of_the_bytes(tmp_path):
    rank, size = adasum.rank(), adasum.size()
    communicator = adasum.world().split(color=0, options={"timeline": str(tmp_path / "trace")})
    rows = 20_000
    draw = np.random.default_rng(rank)
    indices = draw.choice(rows, rows // 100, replace=False)
    values = draw.normal(size=(len(indices), 64)).astype(np.float32)
    mine = tf.IndexedSlices(values, indices, [rows, 64])
    sparse = adasum.allreduce(mine, communicator=communicator, name="sparse")
    # NumPy's, which does not lie in the arena: a large tensor does, and is not sent.
    dense = tf.convert_to_tensor(mine).numpy()
    adasum.allreduce_arrays(dense, communicator=communicator, name="dense")
    communicator.close()
    np.testing.assert_allclose(tf.convert_to_tensor(sparse), dense, atol=1e-6)
    (written,) = [path for path in tmp_path.iterdir() if str(rank) in path.name][:1]
    sent = dict(timeline.sent_bytes(timeline.read(written)))
    if size > 1:
        assert 0 < sent["sparse"] <= 0.1 * sent["dense"]


def test_dense_tensors_and_rows_in_one_structure():
    rank, size = adasum.rank(), adasum.size()
    mine = {
        "rows": tf.IndexedSlices(
            tf.ones([1, 2, 3]), tf.constant([rank]), tf.constant([size, 2, 3])
        ),
        "dense": tf.ones([4]),
        "wide": tf.IndexedSlices(
            tf.ones([2, 1], tf.float64), tf.constant([7, 7]), tf.constant([9, 1])
        ),
    }
    for reduce in (adasum.allreduce, tf.function(adasum.allreduce)):
        summed = reduce(mine, "sum")
        np.testing.assert_array_equal(summed["dense"], [size] * 4)
        assert summed["rows"].indices.numpy().tolist() == list(range(size))
        assert summed["rows"].values.shape == [size, 2, 3]
        np.testing.assert_array_equal(tf.convert_to_tensor(summed["wide"])[7], [2 * size])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
def test_indices_beyond_the_tensor_are_refused_on_all_ranks(compiled):
    """Passed by the last rank alone."""
    last = adasum.size() - 1
    for bad in (-1, 5):
        index = bad if adasum.rank() == last else 4
        told = f"rank {last} passed index {bad} for one of 5 rows, which are 0 to 4, in tensor 0"
        check_refused(
            lambda i: adasum.allreduce(tf.IndexedSlices(tf.ones([2, 3]), i, [5, 3]), name="rows"),
            tf.constant([0, index]),
            compiled,
            told,
            needs_others=False,
        )


def test_rows_without_an_index_are_refused_on_all_ranks():
    last = adasum.size() - 1
    count = 3 if adasum.rank() == last else 2
    check_refused(
        lambda i: adasum.allreduce(tf.IndexedSlices(tf.ones([2, 3]), i, [5, 3]), name="rows"),
        tf.zeros([count], tf.int32),
        False,
        f"rank {last} passed indices of shape [3] for 2 rows",
        needs_others=False,
    )


def test_a_number_of_rows_below_zero_is_refused_on_all_ranks():
    rows = tf.IndexedSlices(tf.zeros([0, 3]), tf.zeros([0], tf.int64), tf.constant([-1, 3]))
    told = "rank 0 passed -1 rows in all"
    check_refused(adasum.allreduce, rows, False, told, needs_others=False)


def test_unlike_tensors_are_refused_on_all_ranks():
    last = adasum.size() - 1
    rows = 6 if adasum.rank() == last else 5
    check_refused(
        lambda x: adasum.allreduce(tf.IndexedSlices(x, [0], [rows, 3]), name="rows"),
        tf.ones([1, 3]),
        False,
        f"rank {last} passed allreduce(adasum) of 1 sparse float32 tensors: float rows of [3] out",
    )


def test_what_has_no_rows_is_refused():
    slices = tf.IndexedSlices(tf.ones([1, 2]), [0], dense_shape=[3, 2])
    with pytest.raises(ValueError, match=r"IndexedSlices with a dense_shape.*Received: "):
        adasum.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [0]), "sum")
    with pytest.raises(ValueError, match=r"whole numbers as indices.*Received: float32"):
        adasum.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [0.5], [3, 2]), "sum")
    with pytest.raises(ValueError, match=r"among \['adasum', 'mean', 'sum'\].*Received: 'max'"):
        adasum.allreduce(slices, "max")
    with pytest.raises(ValueError, match=r"dense tensors for a local reduction.*Pass tf\.convert"):
        adasum.allreduce(slices, local_reduction="mean")
    with tf.GradientTape() as tape:
        values = tf.ones([1, 2])
        tape.watch(values)
        summed = adasum.allreduce(tf.IndexedSlices(values, [0], dense_shape=[3, 2]), "sum")
        total = tf.reduce_sum(summed.values)
    refused = r"Received: tf\.IndexedSlices, whose allreduce has none"
    with pytest.raises(LookupError, match=refused):
        tape.gradient(total, values)

    @tf.function
    def gradient(values):
        slices = tf.IndexedSlices(values, [0], dense_shape=[3, 2])
        return tf.gradients(adasum.allreduce(slices, "sum").values, values)

    with pytest.raises(LookupError, match=refused):
        gradient(tf.ones([1, 2]))


ONE_ROW = tf.ones([1, 2])


@pytest.mark.parametrize(
    ("slices", "reduction", "kind", "text"),
    [
        ((ONE_ROW, [0], [3, 2]), "max", ValueError, "Received: 'max'"),
        ((ONE_ROW, [0]), "sum", ValueError, "with a dense_shape"),
        ((ONE_ROW, [0.5], [3, 2]), "sum", ValueError, "whole numbers as indices"),
        ((ONE_ROW, [0], [3, 4]), "sum", ValueError, "values of shape"),
        (
            (tf.ones([1, 2], tf.int32), [0], [3, 2]),
            "adasum",
            tf.errors.InvalidArgumentError,
            "for the reduction adasum",
        ),
    ],
)
def test_rows_are_refused_before_the_dense_tensors_beside_them_travel(
    slices, reduction, kind, text
):
    structure = [tf.ones([3]), tf.IndexedSlices(*slices)]
    check_refused_by_one(lambda: adasum.allreduce(structure, reduction), kind, text)
