"""Pipelines with cache(): every row once an epoch, and all rows in predict, in whatever order."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, barrier, shared_path, strategy
from tf_adasum.collectives.communicator import world

NUM_FILES, ROWS_OF_FILE = 6, 4
NUM_ROWS = NUM_FILES * ROWS_OF_FILE
_Policy = tf.data.experimental.AutoShardPolicy


def numbers_in_files(policy=_Policy.AUTO):
    """The numbers of all rows, of text files that hold a few each, behind a cache."""
    path = shared_path("rows")
    names = [f"{path}{index}" for index in range(NUM_FILES)]
    if world().rank == 0:
        for index, name in enumerate(names):
            rows = range(index * ROWS_OF_FILE, (index + 1) * ROWS_OF_FILE)
            with open(name, "w") as file:
                file.writelines(f"{row}\n" for row in rows)
    barrier()
    data = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TextLineDataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    data = data.map(lambda text: tf.strings.to_number(text)[None]).cache()
    return data.map(lambda row: (row, row)).batch(8).with_options(options)


class Seen(keras.metrics.Metric):
    """How many targets there were, and the sum of their squares."""

    def __init__(self):
        super().__init__(name="seen")
        self.count, self.squares = self.add_variable((), "zeros"), self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign_add(tf.cast(tf.size(y_true), tf.float32))
        self.squares.assign_add(tf.reduce_sum(tf.square(y_true)))

    def result(self):
        return {"count": self.count, "squares": self.squares}


def model_of_ones(num_local):
    with strategy(num_local).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.0)), "mse", metrics=[Seen()])
        model.set_weights([np.ones([1, 1])])
    return model


def check_fit(model, data):
    logs = model.fit(data, verbose=0, epochs=2).history
    squares = np.square(np.arange(NUM_ROWS)).sum()
    assert (logs["count"], logs["squares"]) == ([NUM_ROWS] * 2, [squares] * 2)


def check_predict(model, data):
    predicted = np.sort(model.predict(data, verbose=0).ravel())
    np.testing.assert_array_equal(predicted, np.arange(NUM_ROWS))


def check_loop(model, data):
    """A loop of the program's own, or what `adapt` reads."""
    rows = sorted(float(row[0]) for row, _ in data.unbatch())
    np.testing.assert_array_equal(rows, np.arange(NUM_ROWS))


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize(
    "order",
    [
        (check_fit, check_predict, check_loop),
        (check_loop, check_fit, check_predict),
        (check_predict, check_fit, check_loop),
    ],
    ids=["fit first", "loop first", "predict first"],
)
def test_a_cache_behind_files_holds_all_rows(order, num_local):
    model, data = model_of_ones(num_local), numbers_in_files()
    for check in order:
        check(model, data)


def test_files_that_the_program_deals_are_not_predicted_from_a_cache():
    model, data = model_of_ones(1), numbers_in_files(_Policy.FILE)
    check_fit(model, data)  # as everywhere: each rank has files of its own
    if world().size == 1:
        check_predict(model, data)
        return
    with pytest.raises(ValueError, match=r"Received: AutoShardPolicy.FILE and a cache\(\)"):
        model.predict(data, verbose=0)
    barrier()


def test_ranks_write_no_cache_file_together():
    def cached(name):
        rows = tf.data.Dataset.range(12).map(lambda row: tf.cast(row, tf.float32)[None])
        return rows.map(lambda row: (row, row)).cache(name).batch(6)

    model = model_of_ones(1)
    name = shared_path("cache")
    if world().size > 1:
        with pytest.raises(ValueError, match=r"cache files of each rank's own.*on ranks 0, 1"):
            model.fit(cached(name), verbose=0)
    own = f"{name}.{world().rank}"
    for _ in range(2):  # written, and read
        assert model.fit(cached(own), verbose=0).history["count"] == [12]
    # Rank 0's is complete: all may read it.
    barrier()
    assert model.fit(cached(f"{name}.0"), verbose=0).history["count"] == [12]
    assert_equal_on_ranks(model.trainable_variables)
