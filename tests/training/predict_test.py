"""`predict` returns the outputs of all rows, in order, on every rank."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.replicas import (
    LOCAL,
    MAX_LOCAL,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
NUM_ROWS = 29
ZEROS = tf.constant(-0.0, tf.float16), tf.constant(0.0, tf.float16)


class Outputs(keras.Model):
    """Outputs of several kinds, from which the numbers of the rows can be told."""

    def __init__(self, num_local):
        super().__init__()
        self.num_local = num_local

    def call(self, ids):
        ids = tf.reshape(ids, [-1])
        counts = tf.cast(ids % 3, tf.int32)
        parts = tf.stack([ids, ids % 2], axis=1)
        outputs = {
            "bytes": tf.cast(ids, tf.uint8),
            "negative zeros": [tf.where(tf.stack([ids, -ids], axis=1) < 0, *ZEROS)],
            "rows": tf.cast(parts, tf.float64) + 2.0**-40,
            "text": tf.strings.as_string(ids),
            "ragged": tf.RaggedTensor.from_row_lengths(tf.repeat(ids, counts), counts),
        }
        if self.num_local == 1:  # Keras can't put the sparse tensors of several together
            outputs["sparse"] = tf.sparse.from_dense(parts)
        return outputs


def outputs_of(num_local, **settings):
    with strategy(num_local).scope():
        model = Outputs(num_local)
        model.compile(**settings)
    return model


def arrays(ids):
    return {"x": ids, "batch_size": 8}


def pipeline(ids):
    return {"x": tf.data.Dataset.from_tensor_slices(ids).batch(5)}


def uneven_batches(ids):
    """A generator of batches with 1, 2, 3, ... rows."""
    ends = np.cumsum(np.arange(1, len(ids)))
    return {"x": ((part.copy(),) for part in np.split(ids, ends) if len(part))}


def files(ids):
    """One row in some files and many in others: rank 0 writes them, all read all."""
    paths = [shared_path(f"{number}.txt") for number in range(4)]
    if world().rank == 0:
        for path, part in zip(paths, np.split(ids, [1, 20, 25])):
            with open(path, "w") as lines:
                lines.writelines(f"{number}\n" for number in part)
    barrier()
    data = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TextLineDataset, 1, 1)
    return {"x": data.map(lambda line: tf.strings.to_number(line, tf.int64)).batch(8)}


@local_replicas
@pytest.mark.parametrize("make_data", [arrays, pipeline, uneven_batches, files])
def test_all_rows_in_order_on_every_rank(make_data, num_local):
    ids = np.arange(NUM_ROWS)
    got = outputs_of(num_local).predict(**make_data(ids), verbose=0)
    want = Outputs(num_local)(ids)
    check_outputs(got, want)


def check_outputs(got, want):
    np.testing.assert_array_equal(got["bytes"], want["bytes"])
    zeros = got["negative zeros"][0]
    np.testing.assert_array_equal(np.signbit(zeros), np.signbit(want["negative zeros"][0]))
    assert zeros.dtype == np.float16
    np.testing.assert_array_equal(got["rows"], want["rows"])
    assert got["text"].tolist() == want["text"].numpy().tolist()
    assert got["ragged"].to_list() == want["ragged"].to_list()
    if "sparse" in got:
        dense = [tf.sparse.to_dense(each["sparse"]).numpy() for each in (got, want)]
        np.testing.assert_array_equal(*dense)


@pytest.mark.long
@local_replicas
def test_several_steps_at_once_and_callbacks(num_local):
    """Callbacks see whole batches, and `steps` counts batches."""
    model = outputs_of(num_local, steps_per_execution=3)
    ids = np.arange(NUM_ROWS)
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_predict_batch_end=lambda batch, logs: seen.append(np.ravel(logs["bytes"]))
    )
    got = model.predict(ids, batch_size=4, verbose=0, callbacks=[watch])
    check_outputs(got, Outputs(num_local)(ids))
    np.testing.assert_array_equal(np.concatenate(seen), ids)
    got = model.predict(ids, batch_size=4, steps=3, verbose=0)
    np.testing.assert_array_equal(got["bytes"], ids[:12])


@local_replicas
def test_weights_and_repeated_calls(num_local):
    with strategy(num_local).scope():
        model = small_model(keras.layers.Dropout(0.5))
    x, _ = examples(NUM_ROWS)
    want = model(x).numpy()
    for batch_size in (7, 32):
        got = model.predict(x, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(everywhere(got), [got.astype(np.float64)] * world().size)
    own = model.predict_on_batch(x[: 3 + world().rank])
    np.testing.assert_allclose(own[: 3 + world().rank], want[: 3 + world().rank], atol=1e-6)


class Noise(keras.layers.Layer):
    """The rows, and numbers drawn by Keras and by TensorFlow."""

    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, x):
        drawn = keras.random.normal(tf.shape(x), seed=self.seeds), tf.random.normal(tf.shape(x))
        return tf.concat([x, *drawn], axis=1)


@pytest.mark.long
@local_replicas
def test_compiled_predictions_with_noise_are_whole_and_in_order(num_local):
    keras.utils.set_random_seed(5)
    with strategy(num_local).scope():
        model = keras.Sequential([keras.Input((1,)), Noise()])
        model.compile(jit_compile=True)
    ids = np.arange(NUM_ROWS, dtype=np.float32)[:, None]
    got = model.predict(ids, batch_size=8, verbose=0)
    np.testing.assert_array_equal(got[:, :1], ids)
    np.testing.assert_array_equal(everywhere(got), [got.astype(np.float64)] * world().size)
    # No replica draws what another one draws. XLA takes no seeds of TensorFlow's operations.
    assert len(np.unique(got[:, 1])) == NUM_ROWS


@local_replicas
def test_data_that_are_not_sharded_are_a_ranks_own(num_local):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    ids = np.arange(NUM_ROWS + 5 * world().rank)
    data = tf.data.Dataset.from_tensor_slices(ids).batch(8).with_options(options)
    got = outputs_of(num_local).predict(data, verbose=0)
    np.testing.assert_array_equal(got["bytes"], ids)


def test_rows_that_cannot_be_told_apart_are_refused():
    """Two local replicas, and one row of output for each replica: whose is it?"""

    class Sums(keras.Model):
        def call(self, x):
            return tf.reduce_sum(x, axis=0, keepdims=True)

    with strategy(LOCAL[-1]).scope():
        model = Sums()
    x = np.ones((4 * LOCAL[-1] * world().size, 3), np.float32)
    if world().size == 1 or LOCAL[-1] == 1:
        assert len(model.predict(x, batch_size=len(x), verbose=0)) == LOCAL[-1] * world().size
        return
    with pytest.raises(
        ValueError, match=rf"^rank {world().rank}: .*input are 8\. Predict with one"
    ):
        model.predict(x, batch_size=len(x), verbose=0)


@local_replicas
def test_a_predict_step_may_compute_in_numpy(num_local):
    """With run_eagerly, where every replica has rows."""

    class InNumpy(keras.Model):
        def predict_step(self, data):
            return 2 * np.asarray(data)

    replicas = strategy(num_local)
    with replicas.scope():
        model = InNumpy()
        model.compile(run_eagerly=True)
    x = examples(4 * replicas.num_replicas_in_sync)[0]
    if replicas.num_replicas_in_sync == 1:  # Keras itself takes tensors only
        with pytest.raises(AttributeError):
            model.predict(x, verbose=0)
        return
    np.testing.assert_array_equal(model.predict(x, batch_size=len(x), verbose=0), 2 * x)


def test_an_error_on_a_made_up_row_says_so():
    """Of a rank by itself: if one of several fails, the others wait until it ends."""
    replicas = strategy(MAX_LOCAL, communicator=world().split(world().rank))
    with replicas.scope():
        lookup = keras.layers.IntegerLookup(vocabulary=[3, 5, 7], num_oov_indices=0)
        model = keras.Sequential([keras.Input((1,), dtype="int64"), lookup])
    known = np.array([[5], [3]])
    np.testing.assert_array_equal(model.predict(known, verbose=0), [[1], [0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="no row and computed on a row"):
        model.predict(known[:1], verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError) as told:
        model.predict(np.array([[4], [4]]), verbose=0)  # the program's own error
    assert "no row" not in str(told.value)
