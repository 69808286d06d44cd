"""A plain iterator gives replicas on CPUs what TensorFlow's iterator over devices gives them."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy

PER_REPLICA = 4
SEVERAL = [num_local for num_local in LOCAL if num_local > 1]
# With options of the program's own, TensorFlow's iterator stays.
OVER_DEVICES = tf.distribute.InputOptions()


def data_of(replicas, cut=0):
    """Two steps, of which the last lacks `cut` rows."""
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    return tf.data.Dataset.from_tensor_slices(examples(2 * batch - cut)).batch(batch)


def batches_of(replicas, data, options):
    """What each local replica gets in each step, and what the iterator is."""
    distributed = replicas.experimental_distribute_dataset(data, options)
    iterator = iter(distributed)
    steps = [replicas.experimental_local_results(step) for step in iterator]
    kind = type(iterator._iterators[0]._iterator).__name__
    return [[[part.numpy() for part in each] for each in step] for step in steps], kind


@pytest.mark.parametrize("num_local", SEVERAL or LOCAL)
@pytest.mark.parametrize("cut", [0, 1, PER_REPLICA + 1])
def test_each_replica_gets_the_same_rows(cut, num_local):
    replicas = strategy(num_local)
    data = data_of(replicas, cut)
    on_host, plain = batches_of(replicas, data, None)
    over_devices, kind = batches_of(replicas, data, OVER_DEVICES)
    assert (plain, kind) == ("OwnedIterator", "OwnedMultiDeviceIterator")
    assert len(on_host) == len(over_devices) == 2
    tf.nest.map_structure(np.testing.assert_array_equal, on_host, over_devices)


@pytest.mark.parametrize("num_local", SEVERAL or LOCAL)
@pytest.mark.parametrize("steps", [1, 2])
def test_fit_and_evaluate_give_the_same_bits(steps, num_local):
    replicas = strategy(num_local)

    def run(options):
        keras.utils.set_random_seed(7)
        with replicas.scope():
            model = small_model()
            optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.05, momentum=0.9))
            model.compile(optimizer, "mse", steps_per_execution=steps)
        data = data_of(replicas, PER_REPLICA + 1)
        if options:
            data = replicas.experimental_distribute_dataset(data, options)
        history = model.fit(data, epochs=2, verbose=0).history["loss"]
        evaluated = model.evaluate(data, verbose=0)
        assert_equal_on_ranks(model.trainable_variables)
        return [*model.get_weights(), np.array([*history, evaluated])]

    for got, want in zip(run(None), run(OVER_DEVICES), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("num_local", LOCAL)
def test_each_replica_has_a_pipeline_of_its_own(num_local):
    """With InputReplicationMode.PER_REPLICA; the context says which."""
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync

    def pipeline(context):
        assert context.num_input_pipelines == context.num_replicas_in_sync == number
        rows = tf.data.Dataset.range(2 * number).shard(number, context.input_pipeline_id)
        return rows.batch(context.get_per_replica_batch_size(number))

    options = tf.distribute.InputOptions(
        experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        experimental_fetch_to_device=False,
    )
    data = replicas.distribute_datasets_from_function(pipeline, options)
    ids = replicas.run(lambda: tf.distribute.get_replica_context().replica_id_in_sync_group)
    first = np.array([int(each) for each in replicas.experimental_local_results(ids)])
    steps = [np.concatenate(replicas.experimental_local_results(step)) for step in data]
    np.testing.assert_array_equal(steps, [first, first + number])
    later = replicas.experimental_distribute_dataset(
        tf.data.Dataset.range(2 * number).batch(number)
    )
    assert len(list(later)) == 2


def test_one_pipeline_for_each_replica_needs_a_function():
    options = tf.distribute.InputOptions(
        experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA
    )
    expected = r"Expected a function that makes datasets, .*Call distribute_datasets_from_function"
    with pytest.raises(NotImplementedError, match=expected):
        strategy(1).experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2), options)
