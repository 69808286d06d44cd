"""What replicas gather, and rows that they add to a table, over all ranks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.training.replicas import LOCAL, strategy

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


@local_replicas
def test_gather_keeps_lengths_and_order(num_local):
    replicas = strategy(num_local)

    def rows():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.fill([number + 1, 2], tf.cast(number, tf.float32))

    gathered = replicas.gather(replicas.run(rows), axis=0)
    want = [[n, n] for n in range(replicas.num_replicas_in_sync) for _ in range(n + 1)]
    np.testing.assert_array_equal(gathered, want)


@local_replicas
@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("dtype", ["float16", "uint8", "complex64"])
def test_gather_along_any_axis(dtype, axis, num_local):
    """Some replicas have nothing; in a function, and in replicas, too."""
    replicas = strategy(num_local)

    def part(number):
        shape = [2, 3, 4]
        shape[axis] = 2 * (number % 2)
        return np.arange(np.prod(shape)).reshape(shape) + number

    def parts():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        length = [2 * (number % 2)]
        shape = tf.tensor_scatter_nd_update([2, 3, 4], [[axis % 3]], length)
        values = tf.reshape(tf.range(tf.reduce_prod(shape)) + number, shape)
        return tf.ensure_shape(tf.cast(values, dtype), [2, None, None])

    def in_replicas():
        return tf.distribute.get_replica_context().all_gather(parts(), axis)

    want = [part(number) for number in range(replicas.num_replicas_in_sync)]
    want = np.concatenate(want, axis).astype(dtype)
    np.testing.assert_array_equal(replicas.gather(replicas.run(parts), axis), want)
    gathered = tf.function(lambda: replicas.run(in_replicas))()
    for copy in replicas.experimental_local_results(gathered):
        np.testing.assert_array_equal(copy, want)


@local_replicas
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_gather_of_an_unknown_number_of_dimensions(axis, num_local):
    """As `tf.py_function` and `tf.numpy_function` return it."""
    replicas = strategy(num_local)

    def part(number):
        return np.full([2, 2], number, np.float32)

    def parts():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.numpy_function(part, [number], tf.float32)

    gathered = tf.function(lambda: replicas.gather(replicas.run(parts), axis))()
    want = [part(number) for number in range(replicas.num_replicas_in_sync)]
    np.testing.assert_array_equal(gathered, np.concatenate(want, axis))


@local_replicas
def test_what_has_no_such_dimension_is_not_gathered(num_local):
    replicas = strategy(num_local)
    if replicas.num_replicas_in_sync > 1:
        with pytest.raises(ValueError, match=r"Received: scalars\. Gather tf\.reshape"):
            replicas.gather(replicas.run(lambda: tf.constant(1.0)), axis=0)
        for axis in (2, -3):
            with pytest.raises(ValueError, match=rf"have a dimension {axis}\. Received.*\(1, 2\)"):
                replicas.gather(replicas.run(lambda: tf.ones([1, 2])), axis)
    gathered = replicas.gather(replicas.run(lambda: tf.ones([1])), axis=0)
    np.testing.assert_array_equal(gathered, [1.0] * replicas.num_replicas_in_sync)


@local_replicas
def test_indexed_slices_are_reduced_as_dense(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync

    def step():
        context = tf.distribute.get_replica_context()
        row = tf.reshape(context.replica_id_in_sync_group, [1])
        slices = tf.IndexedSlices(tf.ones([1, 2]), row, dense_shape=[number, 2])
        return tf.convert_to_tensor(context.all_reduce(tf.distribute.ReduceOp.SUM, slices))

    for copy in replicas.experimental_local_results(replicas.run(step)):
        np.testing.assert_array_equal(copy, np.ones([number, 2]))


@local_replicas
@pytest.mark.parametrize("aggregation", ["MEAN", "SUM"])
def test_rows_that_replicas_scatter_to_a_variable(aggregation, num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        variable = tf.Variable(
            tf.ones([number + 2, 3]), aggregation=tf.VariableAggregation[aggregation]
        )

    def step(shape):
        row = tf.distribute.get_replica_context().replica_id_in_sync_group
        slices = tf.IndexedSlices(tf.fill([2, 3], 6.0), [row, row + 1], dense_shape=shape)
        variable.scatter_add(slices)

    want = np.ones([number + 2, 3])
    for shape in (variable.shape, None):
        replicas.run(step, args=(shape,))
        for replica in range(number):
            want[replica : replica + 2] += 6.0 / (number if aggregation == "MEAN" else 1)
        for copy in variable.values:
            np.testing.assert_allclose(copy.numpy(), want, rtol=1e-6)


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
def test_rows_that_the_first_replica_scatters(in_graph, num_local):
    """Other replicas may scatter other numbers of rows."""
    replicas = strategy(num_local)
    with replicas.scope():
        variable = tf.Variable(tf.zeros([4]), aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def step():
        own = tf.distribute.get_replica_context().replica_id_in_sync_group + 1
        values = tf.fill([own], tf.cast(own, tf.float32))
        variable.scatter_add(tf.IndexedSlices(values, tf.fill([own], own)))

    (tf.function(lambda: replicas.run(step)) if in_graph else lambda: replicas.run(step))()
    for copy in variable.values:
        np.testing.assert_array_equal(copy.numpy(), [0, 1, 0, 0])
