"""Ranks that read files: every row once an epoch, whatever ranks are dealt, as on one device."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.training.numbered_files import ROWS_OF_FILE, model_of_ones, number_files, to_number
from tests.training.replicas import LOCAL
from tf_adasum.collectives.communicator import world

# Of two and three ranks one is dealt more of them.
NUM_FILES = 5
NUM_ROWS = NUM_FILES * ROWS_OF_FILE
BATCH = 4


def known(rows):
    return rows.apply(tf.data.experimental.assert_cardinality(NUM_ROWS)).batch(BATCH)


def with_other_data(rows):
    """Row i beside number i, of memory."""
    numbers = tf.data.Dataset.range(NUM_ROWS).map(lambda number: tf.cast(number, tf.float32)[None])
    both = tf.data.Dataset.zip(rows, numbers)
    return both.map(lambda row, number: row * number).batch(BATCH)


def behind_other_data(rows):
    more = tf.data.Dataset.from_tensor_slices(np.arange(100, 110, dtype=np.float32)[:, None])
    return rows.concatenate(more).batch(BATCH)


PIPELINES = {
    "as they are": lambda rows: rows.batch(BATCH),
    "of a known number": known,
    "of a known number of batches": lambda rows: rows.batch(BATCH).apply(
        tf.data.experimental.assert_cardinality(NUM_FILES)
    ),
    "take": lambda rows: rows.take(6).batch(BATCH),
    "skip": lambda rows: rows.skip(6).batch(BATCH),
    "take batches": lambda rows: rows.batch(BATCH).take(2),
    "skip batches": lambda rows: rows.batch(BATCH).skip(2),
    "shard": lambda rows: rows.shard(2, 1).batch(BATCH),
    "zip": with_other_data,
    "concatenate": behind_other_data,
}


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("name", PIPELINES)
def test_every_row_is_seen_once(name, num_local, recwarn):
    files = tf.data.Dataset.from_tensor_slices(number_files(NUM_FILES))
    data = PIPELINES[name](files.interleave(tf.data.TextLineDataset, 1).map(to_number))
    rows = np.concatenate([batch.numpy() for batch in data]).ravel()
    wanted = [len(rows), np.square(rows).sum()]
    pairs = data.map(lambda row: (row, row))
    model = model_of_ones(num_local)
    logs = model.fit(pairs, verbose=0, epochs=2).history
    assert [logs["count"], logs["squares"]] == [[each] * 2 for each in wanted]
    tested = model.evaluate(pairs, verbose=0, return_dict=True)
    assert [tested["count"], tested["squares"]] == wanted
    np.testing.assert_array_equal(model.predict(data, verbose=0).ravel(), rows)
    if name == "of a known number":
        assert not any("ran out of data" in str(warning.message) for warning in recwarn)


def test_one_file_may_be_read_in_an_order_of_chance():
    """As TensorFlow Datasets reads MNIST where shuffle_files=True: a single file has one order."""
    names = tf.data.Dataset.from_tensor_slices(number_files(1))
    read = names.interleave(
        tf.data.TextLineDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    model = model_of_ones(1)
    data = read.map(to_number).map(lambda row: (row, row)).batch(2)
    assert model.fit(data, verbose=0).history["count"] == [ROWS_OF_FILE]


def test_several_are_refused_with_what_to_do():
    """Where rows are dealt: behind a cache here."""
    if world().size == 1:
        return  # nobody to differ from
    names = tf.data.Dataset.from_tensor_slices(number_files(NUM_FILES))
    read = names.interleave(
        tf.data.TextLineDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    data = read.map(to_number).cache().map(lambda row: (row, row)).batch(2)
    with pytest.raises(ValueError, match=r"deterministic=False\..*ReadConfig\(shuffle_seed=1\)"):
        model_of_ones(1).fit(data, verbose=0)


@pytest.mark.parametrize("num_files", [1, NUM_FILES])
def test_names_that_a_reader_is_given_are_dealt(num_files):
    """`TextLineDataset("data.csv")`: of a single file every rank reads all."""
    rows = tf.data.TextLineDataset(number_files(num_files)).map(to_number)
    data = rows.map(lambda row: (row, row)).batch(BATCH)
    assert model_of_ones(1).fit(data, verbose=0).history["count"] == [num_files * ROWS_OF_FILE]


@pytest.mark.parametrize("num_files", [1, NUM_FILES])
@pytest.mark.parametrize("read", ["list", "interleave"])
def test_unlike_lists_of_files_are_told(num_files, read, caplog):
    """As of `random.shuffle(names)`, or of `names[rank::size]`."""
    rank, size = world().rank, world().size
    names = number_files(2 * num_files)
    off = tf.data.Options()
    off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    model = model_of_ones(1)

    def fit_on(names, options):
        rows = tf.data.TextLineDataset(names)
        if read == "interleave":
            rows = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TextLineDataset)
        data = rows.map(to_number).map(lambda row: (row, row)).batch(BATCH)
        model.fit(data.with_options(options), verbose=0)

    fit_on(names[:num_files], tf.data.Options())
    own = names[rank % 2 :: 2]
    fit_on(own, off)
    assert "other files" not in caplog.text
    fit_on(own, tf.data.Options())
    line = "rank 1 was given other files than rank 0, or in another order. "
    assert caplog.text.count(line) == (rank == 0 and size > 1)


@pytest.mark.parametrize("num_files", [1, NUM_FILES])
def test_folders_of_a_host_s_own_are_not_told(num_files, tmp_path, caplog):
    names = [os.path.join(tmp_path, f"{number}.txt") for number in range(num_files)]
    for source, name in zip(number_files(num_files), names, strict=True):
        shutil.copy(source, name)
    rows = tf.data.TextLineDataset(names).map(to_number)
    model_of_ones(1).fit(rows.map(lambda row: (row, row)).batch(BATCH), verbose=0)
    assert "was given" not in caplog.text
