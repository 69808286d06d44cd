"""Gradients through allreduce and broadcast, against those of the sum of all ranks' losses.

Rank k's loss is sum(w_k * y^2) / 2 of what it received, y, so that its own gradient is w_k * y.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 1e-5, "float64": 1e-12}
SHAPE = (3, 4)
in_both = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
in_both_with_a_name = pytest.mark.parametrize(
    ("name", "compiled"), [(None, False), (None, True), ("y", True)]
)


def _drawn(leaves=1):
    """Inputs x and weights w of all ranks: [rank, leaf, ...] and [rank, ...]."""
    rng = np.random.default_rng(leaves)
    inputs = rng.uniform(0.5, 1.5, size=(adasum.size(), leaves, *SHAPE))
    return inputs, rng.uniform(0.5, 1.5, size=(adasum.size(), *SHAPE))


def _loss(received, weights):
    return sum(
        tf.reduce_sum(tf.cast(weights, y.dtype) * y * y / 2) for y in tf.nest.flatten(received)
    )


def _gradient(collective, inputs, weights, compiled):
    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = [
                tf.cast(_loss(y, weights), tf.float64) for y in tf.nest.flatten(collective(inputs))
            ]
            total = tf.add_n(losses)
        return tape.gradient(total, inputs)

    return (tf.function(run) if compiled else run)(inputs)


def _check(got, want):
    np.testing.assert_allclose(tf.cast(got, tf.float64), want, rtol=TOLERANCE[got.dtype.name])


@in_both
@pytest.mark.parametrize("name", [None, "y"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_allreduce(reduction, name, compiled):
    """Nested, of all dtypes at once."""
    inputs, weights = _drawn()
    combine = {"sum": np.sum, "mean": np.mean}[reduction]
    mine = {
        dtype: [tf.constant(inputs[adasum.rank(), 0], dtype), (tf.constant([1.0], dtype),)]
        for dtype in TOLERANCE
    }
    got = _gradient(
        lambda x: {d: adasum.allreduce(x, reduction, name=name)[d][0] for d in x},
        mine,
        weights[adasum.rank()],
        compiled,
    )
    want = combine(weights * combine(inputs[:, 0], axis=0), axis=0)
    for gradient, _ in got.values():
        _check(gradient, want)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_replicas(reduction):
    inputs, weights = _drawn(leaves=2)
    combine = {"sum": np.sum, "mean": np.mean}[reduction]
    leaves = [[tf.constant(leaf)] for leaf in inputs[adasum.rank()]]
    got = _gradient(
        lambda x: allreduce_replicas(x, reduction), leaves, weights[adasum.rank()], False
    )
    want = combine(weights * combine(inputs, axis=(0, 1)), axis=0)
    want = want / 2 if reduction == "mean" else want  # y is a mean over leaves, its losses per rank
    for (gradient,) in got:
        _check(gradient, want)


@in_both
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_broadcast(dtype, compiled):
    inputs, weights = _drawn()
    for root in {0, adasum.size() - 1}:
        got = _gradient(
            lambda x: adasum.broadcast([x, tf.constant(7)], root)[0],  # noqa: B023
            tf.constant(inputs[adasum.rank(), 0], dtype),
            weights[adasum.rank()],
            compiled,
        )
        want = weights.sum(axis=0) * inputs[root, 0]
        _check(got, want if adasum.rank() == root else np.zeros(SHAPE))


def test_broadcast_of_complex_numbers():
    mine = tf.complex(adasum.rank() + 1.0, 2.0)
    with tf.GradientTape() as tape:
        tape.watch(mine)
        received = adasum.broadcast(mine)
        loss = tf.math.real(received) * (adasum.rank() + 1.0) + 3.0 * tf.math.imag(received)
    with tf.GradientTape() as plain:
        plain.watch(mine)
        weight = adasum.size() * (adasum.size() + 1) / 2
        want = tf.math.real(mine) * weight + 3.0 * adasum.size() * tf.math.imag(mine)
    want = plain.gradient(want, mine) if adasum.rank() == 0 else tf.zeros_like(mine)
    np.testing.assert_allclose(tape.gradient(loss, mine), want)


def test_second_derivative_of_a_broadcast_of_complex_numbers():
    """Of |z|⁴ on every rank, with z from rank 0, as TensorFlow has it of their sum on one."""
    mine = tf.complex([1.0, -2.0], [0.5, 3.0])

    def second(loss):
        with tf.GradientTape() as outer:
            outer.watch(mine)
            with tf.GradientTape() as inner:
                inner.watch(mine)
                value = loss(mine)
            first = inner.gradient(value, mine)
            seen = tf.math.real(first) + 2.0 * tf.math.imag(first)
        return outer.gradient(seen, mine)

    got = second(lambda z: tf.square(tf.square(tf.abs(adasum.broadcast(z)))))
    # The root's first derivative alone depends on what is sent.
    want = second(lambda z: adasum.size() * tf.square(tf.square(tf.abs(z))))
    want = want if adasum.rank() == 0 else tf.zeros_like(want)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@in_both_with_a_name
def test_allgather(name, compiled):
    """Of rank + 1 rows of each dtype: w belongs to the rank that gathers, for all rows."""
    size, rank = adasum.size(), adasum.rank()
    rows = np.random.default_rng(0).uniform(0.5, 1.5, size=(size, size, 3))
    weights = np.arange(1.0, size + 1)
    mine = {dtype: tf.constant(rows[rank, : rank + 1], dtype) for dtype in TOLERANCE}

    def gather(x):
        gathered = adasum.allgather([*x.values(), tf.constant([7])], name=name)
        return gathered[:-1]

    got = _gradient(gather, mine, weights[rank], compiled)
    for gradient in got.values():
        _check(gradient, weights.sum() * rows[rank, : rank + 1])


def test_allgather_of_complex_numbers():
    mine = tf.complex([adasum.rank() + 1.0] * (adasum.rank() % 2 + 1), 2.0)
    with tf.GradientTape() as tape:
        tape.watch(mine)
        loss = tf.reduce_sum(tf.math.real(adasum.allgather(mine)) * 3.0)
    np.testing.assert_allclose(tape.gradient(loss, mine), np.full(mine.shape, 3.0 * adasum.size()))


@in_both_with_a_name
def test_alltoall(name, compiled):
    """Rank k deals k + t rows to rank t; a row's gradient is its value times its taker's weight."""
    size, rank = adasum.size(), adasum.rank()
    splits = [rank + taker for taker in range(size)]
    weights = np.arange(1.0, size + 1)
    rows = np.random.default_rng(rank).uniform(0.5, 1.5, size=(sum(splits), 3))
    mine = {dtype: tf.constant(rows, dtype) for dtype in TOLERANCE}

    def deal(x):
        received, _ = adasum.alltoall([*x.values(), tf.range(sum(splits))], splits, name=name)
        return received[:-1]

    got = _gradient(deal, mine, weights[rank], compiled)
    for gradient in got.values():
        _check(gradient, rows * np.repeat(weights, splits)[:, None])


@in_both_with_a_name
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_reduce_scatter(reduction, name, compiled):
    size, rank = adasum.size(), adasum.rank()
    combine = {"sum": np.sum, "mean": np.mean}[reduction]
    inputs = np.random.default_rng(0).uniform(0.5, 1.5, size=(size, size + 2, 3))
    weights = np.arange(1.0, size + 1)
    mine = {dtype: tf.constant(inputs[rank], dtype) for dtype in TOLERANCE}

    def scatter(x):
        return adasum.reduce_scatter([*x.values(), tf.range(4)], reduction, name=name)[:-1]

    got = _gradient(scatter, mine, weights[rank], compiled)
    of_rows = np.repeat(weights, [len(share) for share in np.array_split(inputs[0], size)])
    want = of_rows[:, None] * combine(inputs, axis=0) / (size if reduction == "mean" else 1)
    for gradient in got.values():
        _check(gradient, want)


def test_reduce_scatter_has_none_but_for_sum_and_mean():
    mine = tf.ones([4])
    with tf.GradientTape() as tape:
        tape.watch(mine)
        y = adasum.reduce_scatter(mine, "max")
    with pytest.raises(LookupError, match=r"through reduce_scatter with.*Received: 'max'"):
        tape.gradient(y, mine)


def test_second_derivative():
    x = tf.constant(adasum.rank() + 1.0, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = adasum.allreduce(x, "sum", name="y") ** 3
        first = inner.gradient(y, x)  # size * 3 (sum of x)^2
    size = adasum.size()
    total = size * (size + 1) / 2
    np.testing.assert_allclose(first, 3 * size * total**2)
    np.testing.assert_allclose(outer.gradient(first, x), 6 * size**2 * total)


@in_both
def test_second_derivative_of_a_broadcast(compiled):
    """On ranks but the root the first is zero, and yet they take part in the root's second."""

    def derivatives(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = adasum.broadcast(x) ** 3
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    x = tf.constant([2.0, 3.0], tf.float64)
    first, second = (tf.function(derivatives) if compiled else derivatives)(x)
    size = adasum.size() if adasum.rank() == 0 else 0
    np.testing.assert_allclose(first, 3 * size * x**2)
    # first = size * 3 y^2 came to the root from all ranks; its own derivative goes back from them.
    np.testing.assert_allclose(second, 6 * size * x)


@in_both
@pytest.mark.parametrize("reduction", ["adasum", "max", "min", "product"])
def test_others_have_none(reduction, compiled):
    """Refused in one sentence, whatever the number of ranks; without a gradient it stays usable."""
    inputs, weights = _drawn()
    mine = tf.constant(inputs[adasum.rank(), 0])

    def reduce(x):
        return adasum.allreduce(x, reduction)

    refused = rf"'sum' or 'mean'\. Received: '{reduction}', which has none.*allreduce it"
    with pytest.raises(LookupError, match=refused):
        _gradient(reduce, mine, weights[adasum.rank()], compiled)
    with tf.GradientTape() as tape:
        tape.watch(mine)
        y = tf.stop_gradient(reduce(mine)) * mine
    np.testing.assert_allclose(tape.gradient(y, mine), reduce(mine))


def test_whole_numbers_have_none():
    x = tf.constant([1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(adasum.allreduce(x, "sum"), tf.float32) ** 2
    assert tape.gradient(y, x) is None
