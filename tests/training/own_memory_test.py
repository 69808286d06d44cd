"""Arrays of the program that its generators yield parts of stay as they are."""

from __future__ import annotations

import collections
import random

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, strategy
from tf_adasum.distribute.own_memory import in_own_memory

BATCH, STEPS = 60, 4  # rows of every replica, of up to three ranks, begin where arrays are aligned
ALIGNMENT = 64
BATCHES = [slice(begin, begin + BATCH) for begin in range(0, BATCH * STEPS, BATCH)]
DTYPES = [
    *(np.float16, np.float32, np.float64, np.complex64, np.bool_, ml_dtypes.bfloat16),
    *(np.int8, np.uint8, np.int32, np.int64, np.uint64),
]


def aligned(values) -> np.ndarray:
    """Equal values in memory that TensorFlow takes over without a copy."""
    room = np.empty(values.nbytes + ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    array = room[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


class Batches(keras.utils.PyDataset):
    """As the batches of most programs: parts of arrays."""

    def __init__(self, x, y):
        super().__init__()
        self.arrays = x, y

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return tuple(array[BATCHES[index]] for array in self.arrays)


def generator(x, y):
    return iter(Batches(x, y)[index] for index in range(STEPS))


def pipeline(x, y):
    kinds = tuple(tf.TensorSpec((None, *array.shape[1:]), array.dtype) for array in (x, y))
    return tf.data.Dataset.from_generator(lambda: generator(x, y), output_signature=kinds)


def trained(make_data, num_local, arrays) -> list:
    keras.utils.set_random_seed(7)
    with strategy(num_local).scope():
        model = keras.Sequential([keras.layers.Rescaling(2.0), keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    losses = model.fit(make_data(*arrays), shuffle=False, verbose=0).history["loss"]
    assert_equal_on_ranks(model.trainable_variables)
    return [*losses, model.evaluate(make_data(*arrays), verbose=0)]


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("make_data", [Batches, generator, pipeline])
def test_training_leaves_the_arrays_alone(make_data, num_local):
    x = np.random.default_rng(0).normal(size=(BATCH * STEPS, 16)).astype(np.float32)
    before = x, np.repeat(x.sum(axis=1, keepdims=True), 16, axis=1)
    arrays = [aligned(array) for array in before]
    losses = trained(make_data, num_local, arrays)
    for array, values in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, values)
    of_copies = trained(lambda *_: Batches(*map(aligned, before)), num_local, before)
    assert losses == of_copies


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_structure_is_copied(dtype):
    array = aligned(np.arange(64).reshape(16, 4).astype(dtype))
    specs = {"rows": tf.TensorSpec((16, 4), dtype), "names": tf.TensorSpec((2,), tf.string)}
    lent = tf.data.Dataset.from_generator(
        lambda: [({"rows": array, "names": ["a", "b"]}, 3)],
        output_signature=(specs, tf.TensorSpec((), tf.int64)),
    )

    def shares(data) -> bool:
        (features, number), *others = list(data)
        assert not others and int(number) == 3
        assert features["names"].numpy().tolist() == [b"a", b"b"]
        np.testing.assert_array_equal(features["rows"].numpy(), array)
        return np.shares_memory(np.asarray(features["rows"]), array)

    if dtype != ml_dtypes.bfloat16:  # NumPy has no name for it
        assert shares(lent)
        assert not shares(in_own_memory(lent))
    copied = next(iter(in_own_memory(lent)))[0]["rows"].numpy()
    np.testing.assert_array_equal(copied, array)


def test_a_named_tuple_stays_one():
    pair = collections.namedtuple("pair", ["x", "y"])
    spec = tf.TensorSpec((2,), tf.float32)
    lent = tf.data.Dataset.from_generator(
        lambda: [pair(np.ones(2, np.float32), np.zeros(2, np.float32))],
        output_signature=pair(spec, spec),
    )
    assert in_own_memory(lent).element_spec == lent.element_spec
    (copied,) = in_own_memory(lent)
    assert isinstance(copied, pair)
    np.testing.assert_array_equal(copied, [[1, 1], [0, 0]])


def test_ragged_and_sparse_rows_come_through():
    def rows():
        yield tf.ragged.constant([[1.0], [2.0, 3.0]]), tf.sparse.eye(2)

    specs = tf.RaggedTensorSpec((2, None)), tf.SparseTensorSpec((2, 2))
    lent = tf.data.Dataset.from_generator(rows, output_signature=specs)
    ((ragged, sparse),) = in_own_memory(lent)
    assert ragged.to_list() == [[1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(tf.sparse.to_dense(sparse), np.eye(2))


def test_other_pipelines_are_left_as_they_are():
    data = tf.data.Dataset.range(8).map(lambda number: number + 1).batch(2)
    assert in_own_memory(data) is data


@pytest.mark.parametrize("num_local", LOCAL)
def test_fit_draws_from_random_as_keras_does(num_local):
    """Weights that are made afterwards are those of one process."""
    random.seed(5)
    expected = random.random()
    x = np.ones((BATCH, 4), np.float32)
    with strategy(num_local).scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    random.seed(5)
    model.fit(x, x[:, :1], batch_size=BATCH, verbose=0)
    assert random.random() == expected


class InATuple(keras.utils.PyDataset):
    """Inputs of two kinds, and no targets."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return ((np.full((4, 1), index, np.float32), np.full((4, 1), 10, np.float32)),)


def in_a_tuple():
    yield from (InATuple()[index] for index in range(2))


@pytest.mark.parametrize("make_data", [InATuple, in_a_tuple])
@pytest.mark.parametrize("num_local", LOCAL)
def test_inputs_alone_stay_in_their_tuple(make_data, num_local):
    with strategy(num_local).scope():
        inputs = [keras.Input((1,)), keras.Input((1,))]
        model = keras.Model(inputs, keras.layers.Add()(inputs))
    values = model.predict(make_data(), steps=2, verbose=0)
    np.testing.assert_array_equal(np.unique(values), [10, 11])
