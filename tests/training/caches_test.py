"""Pipelines with cache(): every row once an epoch, and all rows in predict, in whatever order."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.training.numbered_files import ROWS_OF_FILE, model_of_ones, number_files, to_number
from tests.training.replicas import LOCAL, assert_equal_on_ranks, barrier, shared_path
from tf_adasum.collectives.communicator import world

NUM_FILES = 6
NUM_ROWS = NUM_FILES * ROWS_OF_FILE
_Policy = tf.data.experimental.AutoShardPolicy


def numbers_in_files(policy=_Policy.AUTO):
    """The numbers of all rows, of text files that hold a few each, behind a cache."""
    names = number_files(NUM_FILES)
    data = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TextLineDataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    data = data.map(to_number).cache()
    return data.map(lambda row: (row, row)).batch(8).with_options(options)


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
