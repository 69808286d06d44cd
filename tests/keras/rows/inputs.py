"""Where examples come from, and of what kind they are."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

from tests.keras.registry import row
from tests.keras.run import BATCH, momentum
from tests.training.replicas import NUM_FEATURES, NUM_OUTPUTS, barrier

inputs = functools.partial(row, "Data")
Shard = tf.data.experimental.AutoShardPolicy


def trained(run, data, **options):
    """The result of fitting `small_model` to x, or to x and y."""
    model = run.compiled()
    return run.result(model, run.fit(model, *data, **options))


@inputs("arrays, validation_data")
def arrays(run):
    x, y = run.examples()
    return trained(run, (x, y), validation_data=run.examples(2), validation_batch_size=BATCH)


@inputs("arrays, validation_split", note="29 rows are left for the validation")
def validation_split(run):
    x, y = run.examples(6)
    rows = 3 * BATCH + 29
    return trained(run, (x[:rows], y[:rows]), validation_split=29 / rows)


@inputs("a generator of batches")
def generator(run):
    def batches():
        for _ in range(2):
            x, y = run.examples(3)
            for first in range(0, len(x), BATCH):
                yield x[first : first + BATCH].copy(), y[first : first + BATCH].copy()

    return trained(run, (batches(),), steps_per_epoch=3)


class Batches(keras.utils.PyDataset):
    """Whole batches of x and y."""

    def __init__(self, x, y, **options):
        super().__init__(**options)
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[rows].copy(), self.y[rows].copy()


@inputs("a PyDataset")
def py_dataset(run):
    return trained(run, (Batches(*run.examples(), workers=2),), shuffle=False)


def with_policy(data, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return data.with_options(options)


@inputs("tf.data, AutoShardPolicy.DATA", full=True)
def dealt(run):
    data = tf.data.Dataset.from_tensor_slices(run.examples()).batch(BATCH)
    return trained(run, (with_policy(data, Shard.DATA),))


@inputs("tf.data, AutoShardPolicy.OFF", note="each rank's pipeline has rows of its own")
def own_pipelines(run):
    x, y = run.examples(6)
    if not run.is_plain:  # the rank's part of each global batch, one after the other
        rows = np.concatenate([run.own_rows(batch) for batch in range(6)])
        x, y = x[rows], y[rows]
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    return trained(run, (with_policy(data, Shard.OFF),))


@inputs("TFRecord files, AutoShardPolicy.FILE", note="all rows are in each step")
def files(run):
    paths = [f"{run.folder()}/part{index}" for index in range(6)]
    if run.writes:
        x, y = run.examples(1)
        for path, *part in zip(paths, np.split(x, 6), np.split(y, 6)):
            with tf.io.TFRecordWriter(path) as writer:
                for row_ in zip(*part):
                    writer.write(tf.io.serialize_tensor(np.concatenate(row_)).numpy())
    barrier()

    def parsed(text):
        row_ = tf.ensure_shape(tf.io.parse_tensor(text, tf.float32), [NUM_FEATURES + NUM_OUTPUTS])
        return row_[:NUM_FEATURES], row_[NUM_FEATURES:]

    data = tf.data.TFRecordDataset(paths).map(parsed).batch(BATCH)
    return trained(run, (with_policy(data, Shard.FILE),), epochs=3)


@inputs("tensorflow_datasets", full=True, note="one file: ranks take their rows of each batch")
def tfds_builder(run):
    from tests.keras.waves.builder import Waves

    folder = run.folder()
    if run.writes:
        Waves(data_dir=folder).download_and_prepare()
    barrier()
    data = Waves(data_dir=folder).as_dataset(split="train", as_supervised=True)
    return trained(run, (data.batch(BATCH),))


@inputs("ragged tensors")
def ragged(run):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = self.add_weight(shape=(11, 6), name="table")
            self.head = keras.layers.Dense(NUM_OUTPUTS)

        def call(self, words):
            vectors = tf.ragged.map_flat_values(tf.gather, self.table.value, words)
            return self.head(tf.reduce_sum(vectors, axis=1))

    _, y = run.examples()
    random = np.random.default_rng(4)
    rows = [random.integers(0, 11, random.integers(1, 6)) for _ in y]
    words = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(each) for each in rows])
    model = run.compiled(Model)
    data = tf.data.Dataset.from_tensor_slices((words, y)).batch(BATCH)
    return run.result(model, run.fit(model, data))


@inputs("sparse tensors")
def sparse(run):
    def make():
        rows = keras.Input((20,), sparse=True)
        return keras.Model(rows, keras.layers.Dense(NUM_OUTPUTS)(rows))

    _, y = run.examples()
    dense = np.random.default_rng(4).normal(size=(len(y), 20)).astype(np.float32)
    dense[np.abs(dense) < 1] = 0
    model = run.compiled(make)
    data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(dense), y)).batch(BATCH)
    return run.result(model, run.fit(model, data))


WORDS = ["the cat sat", "on the mat", "a dog", "the dog and the cat", "mat and cat", "sat a dog"]


@inputs("strings, TextVectorization, adapt")
def strings(run):
    _, y = run.examples()
    texts = np.resize(np.array(WORDS, object), len(y))
    with run.scope():
        vectorization = keras.layers.TextVectorization(output_sequence_length=4)
        vectorization.adapt(texts)
        model = keras.Sequential(
            [
                keras.Input((), dtype="string"),
                vectorization,
                keras.layers.Embedding(12, 5),
                keras.layers.Flatten(),
                keras.layers.Dense(NUM_OUTPUTS),
            ]
        )
        model.compile(run.wrap(momentum()), "mse")
    data = tf.data.Dataset.from_tensor_slices((texts.astype(str), y)).batch(BATCH)
    words = [str(word) for word in vectorization.get_vocabulary()]
    return run.result(model, run.fit(model, data), words=words)


@inputs("Normalization, Discretization, adapt", full=True)
def adapted(run):
    x, y = run.examples()
    with run.scope():
        normalization = keras.layers.Normalization()
        normalization.adapt(x * 3 + 1)
        bins = keras.layers.Discretization(num_bins=4)
        bins.adapt(x)
        rows = keras.Input((NUM_FEATURES,))
        one_of = keras.layers.CategoryEncoding(4, "multi_hot")(bins(rows))
        joined = keras.layers.Concatenate()([normalization(rows), one_of])
        model = keras.Model(rows, keras.layers.Dense(NUM_OUTPUTS)(joined))
        model.compile(run.wrap(keras.optimizers.SGD(0.05)), "mse")
    return run.result(model, run.fit(model, x, y))
