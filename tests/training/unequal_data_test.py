"""Ranks with unequal numbers of batches train to the end of the longest."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world


def own_rows(num_local, known):
    """Examples for 5 batches on even ranks and 4 on odd ones; their number is known or not."""
    x, y = examples(5 * 2 * num_local, seed=world().rank)
    rows = (5 - world().rank % 2) * 2 * num_local
    pipeline = tf.data.Dataset.from_tensor_slices((x[:rows], y[:rows]))
    return pipeline if known else pipeline.filter(lambda x, y: True)


def from_function(replicas, num_local, known):
    return replicas.distribute_datasets_from_function(
        lambda context: own_rows(num_local, known).batch(2)
    )


def without_shards(replicas, num_local, known):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # TensorFlow makes parts of 2 for each replica of it.
    pipeline = own_rows(num_local, known).batch(2 * replicas.num_replicas_in_sync)
    return pipeline.with_options(options)


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("make_data", [from_function, without_shards])
def test_ranks_may_have_unequal_numbers_of_batches(make_data, num_local):
    """It is the same training, whether their numbers are known or not."""
    weights = []
    for known in (True, False):
        replicas = strategy(num_local)
        with replicas.scope():
            keras.utils.set_random_seed(7)
            model = small_model()
            model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
        data = make_data(replicas, num_local, known)
        history = model.fit(data, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()
        logs = model.evaluate(data, verbose=0)
        assert (everywhere(logs) == logs).all()
        assert_equal_on_ranks(model.trainable_variables)
        weights.append(model.get_weights())
    for of_known, of_unknown in zip(*weights):
        np.testing.assert_array_equal(of_known, of_unknown)


def row_of(serialized):
    number = tf.cast(tf.io.parse_tensor(serialized, tf.int32), tf.float32)
    number = tf.reshape(number, [])
    return number / 14 * tf.ones([3]), number * tf.ones([1])


def written_shards():
    """Files of 9, 1 and 4 records, which number all examples."""
    path, number = shared_path("shard"), 0
    paths = [f"{path}{index}" for index in range(3)]
    for name, count in zip(paths, (9, 1, 4)):
        records = [tf.io.serialize_tensor(tf.constant(number + i)) for i in range(count)]
        number += count
        if world().rank == 0:
            with tf.io.TFRecordWriter(name) as writer:
                for record in records:
                    writer.write(record.numpy())
    barrier()
    return paths, number


class Total(keras.metrics.Metric):
    """The sum of the targets and their number."""

    def __init__(self):
        super().__init__(name="total")
        self.sum, self.count = self.add_variable((), "zeros"), self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.sum.assign_add(tf.reduce_sum(y_true))
        self.count.assign_add(tf.cast(tf.size(y_true), tf.float32))

    def result(self):
        return {"sum": self.sum, "count": self.count}


@pytest.mark.parametrize("num_local", LOCAL)
def test_files_of_unequal_length_are_read_once(num_local):
    """Each rank has files of its own, and goes on without rows while others have some."""
    replicas = strategy(num_local)
    with replicas.scope():
        normalization = keras.layers.BatchNormalization()
        model = keras.Sequential([keras.Input((3,)), normalization, keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.001)), "mse", metrics=[Total()])
    paths, number = written_shards()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    data = tf.data.TFRecordDataset(paths).map(row_of).batch(2 * replicas.num_replicas_in_sync)
    data = data.with_options(options)
    history = model.fit(data, epochs=2, verbose=0).history
    evaluated = model.evaluate(data, verbose=0, return_dict=True)
    for logs in ({name: values[-1] for name, values in history.items()}, evaluated):
        assert np.isfinite(list(logs.values())).all()
        assert (logs["count"], logs["sum"]) == (number, number * (number - 1) // 2)
    assert np.isfinite(normalization.moving_variance.numpy()).all()
    assert_equal_on_ranks(model.trainable_variables)


def read_at_once(paths):
    return tf.data.TFRecordDataset(paths)


def read_interleaved(paths):
    return tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset)


@pytest.mark.parametrize("num_files", [1, 3])
@pytest.mark.parametrize("read", [read_at_once, read_interleaved])
def test_fewer_files_than_ranks_are_dealt_by_rows(read, num_files):
    """TensorFlow alone fails at the first batch, where a rank has no file."""
    replicas = strategy(LOCAL[-1])
    data = read(written_shards()[0][:num_files]).map(row_of).batch(4)
    seen = np.zeros(14)
    for _, batch in replicas.experimental_distribute_dataset(data):
        for part in replicas.experimental_local_results(batch):
            np.add.at(seen, part.numpy().astype(int), 1)
    number = 9 if num_files == 1 else 14
    np.testing.assert_array_equal(everywhere(seen).sum(axis=0), np.arange(14) < number)
