"""accumulate=K on one device gives what K ranks give; its plan, its variables, what is saved."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.reference.tree import leaves_in_time, reduce_tree
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.collectives.reductions.adasum import combine_pair
from tf_adasum.optimizers.micro_batches import arrivals

TOLERANCE = 1e-6


@pytest.mark.parametrize("count", range(1, 34))
def test_plan_is_the_tree_of_as_many_ranks(count):
    levels = [None] * (count - 1).bit_length()
    for arrival, leaf in zip(arrivals(count), leaves_in_time(count), strict=True):
        carried = leaf
        for level in arrival.merges:
            carried, levels[level] = (levels[level], carried), None
        if arrival.level < len(levels):
            assert levels[arrival.level] is None, "a waiting result was overwritten"
            levels[arrival.level] = carried
    assert arrival.level == len(levels)
    assert levels == [None] * len(levels)
    # The order of the two sides does not matter to Adasum.
    assert _unordered(carried) == _unordered(reduce_tree(range(count), lambda a, b: (a, b)))


def _unordered(node):
    return frozenset(map(_unordered, node)) if isinstance(node, tuple) else node


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-13), ("float32", 1e-6), ("float16", 2e-3)]
)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (5, 7), (100_003,)])
def test_pair_matches_reference(shape, dtype, tolerance):
    random = np.random.default_rng(0)
    pair = [random.normal(size=shape).astype(dtype) for _ in range(2)]
    got = combine_pair(*map(tf.constant, pair))
    assert (got.dtype.name, got.shape) == (dtype, shape)
    scale = max(np.linalg.norm(side.astype(np.float64)) for side in (*pair, np.zeros(1)))
    error = np.linalg.norm(np.asarray(got, np.float64) - adasum.reduce(pair))
    assert error <= tolerance * scale


def test_pair_at_the_edges():
    pair = combine_pair
    zero, one = tf.zeros([3]), tf.constant([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(pair(zero, one), one)  # zero is the identity
    np.testing.assert_array_equal(pair(zero, zero), zero)
    tiny, huge = tf.constant([1e-30, 0.0]), tf.constant([1e30, 0.0])
    np.testing.assert_allclose(pair(tiny, huge), adasum.reduce([tiny, huge]), rtol=1e-6)
    large = tf.constant([1.1e154], tf.float64)  # twice its squared norm is beyond the doubles
    np.testing.assert_array_equal(pair(large, large), large)
    assert np.isnan(pair(large, 2 * large)).all()  # as of ranks: beyond the doubles
    far = tf.constant([1e160], tf.float64)
    np.testing.assert_allclose(pair(far, tf.constant([1e100], tf.float64)), far / 2)
    assert np.isnan(pair(one, tf.constant([np.nan, 0.0, 0.0]))).all()


def variables():
    return [keras.Variable(np.zeros(shape, np.float32)) for shape in ((5, 7), (6,), ())]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 11])
def test_equals_simulated_ranks_without_a_strategy(count):
    trained = variables()
    optimizer = tf_adasum.wrap(keras.optimizers.SGD(1.0), accumulate=count)
    optimizer.build(trained)
    buffers = [v for v in optimizer.variables if "partial" in v.path]
    assert len(buffers) == (count - 1).bit_length() * len(trained)
    apply = tf.function(lambda grads: optimizer.apply(grads, trained))
    random = np.random.default_rng(count)
    for step in range(2):
        start = [v.numpy() for v in trained]
        ranks = [
            [random.normal(size=v.shape).astype(np.float32) for v in start] for _ in range(count)
        ]
        for number, leaf in enumerate(leaves_in_time(count)):
            assert int(optimizer.iterations) == step, f"before micro-batch {number}"
            for variable, old in zip(trained, start):
                np.testing.assert_array_equal(variable, old)
            apply([tf.constant(gradient) for gradient in ranks[leaf]])
        for new, old, want in zip(trained, start, tf_adasum.simulate(ranks)[0]):
            scale = max(1.0, np.linalg.norm(want))
            np.testing.assert_allclose(old - new.numpy(), want, rtol=0, atol=TOLERANCE * scale)
    assert int(optimizer.iterations) == 2


def fitted(count, steps_per_execution, batches=6, scope=None, **compile_options):
    with scope or strategy(1).scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.05, momentum=0.9), accumulate=count)
        options = {"steps_per_execution": steps_per_execution, **compile_options}
        model.compile(optimizer=optimizer, loss="mse", **options)
    fit(model, 0, batches)
    return model


def fit(model, first, last):
    x, y = (part[4 * first : 4 * last] for part in examples(32))
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"run_eagerly": True}, pytest.param({"jit_compile": True}, marks=pytest.mark.long)],
)
def test_fit_without_a_strategy_equals_one_with_it(options):
    with_strategy = fitted(3, 4)
    without = fitted(3, 1, scope=tf.distribute.get_strategy().scope(), **options)
    for got, want in zip(without.get_weights(), with_strategy.get_weights()):
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("way", ["keras", pytest.param("checkpoint", marks=pytest.mark.long)])
def test_waiting_results_are_saved(tmp_path, way):
    straight = fitted(4, 1, batches=8)
    model = fitted(4, 1, batches=7)
    if way == "keras":
        model.save(str(tmp_path / "model.keras"))
        with strategy(1).scope():
            model = keras.models.load_model(str(tmp_path / "model.keras"))
    else:
        path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path))
        model = fitted(4, 1, batches=1)
        tf.train.Checkpoint(model=model, optimizer=model.optimizer).read(path).assert_consumed()
    fit(model, 7, 8)
    for got, want in zip(model.get_weights(), straight.get_weights()):
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


def test_schedules_are_asked_with_calls_as_in_keras():
    class Rates(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return tf.cast(step, tf.float32)

        def get_config(self):
            return {}

    changes = []
    for settings, own in (({"accumulate": 3}, {}), ({}, {"gradient_accumulation_steps": 3})):
        trained = variables()[:1]
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(Rates(), **own), **settings)
        for _ in range(6):
            optimizer.apply([tf.ones([5, 7])], trained)
        changes.append(trained[0].numpy())
        assert int(optimizer.iterations) == 2
    np.testing.assert_allclose(changes[0], np.full((5, 7), -7.0), rtol=1e-6)  # rates 2 and 5
    np.testing.assert_allclose(changes[1], changes[0], rtol=1e-6)


def test_embedding_gradients_become_dense():
    table = keras.Variable(np.zeros((4, 2), np.float32))
    optimizer = tf_adasum.wrap(keras.optimizers.SGD(1.0), accumulate=2)
    rows = [np.array([[1.0, 2.0]], np.float32), np.array([[3.0, 4.0]], np.float32)]
    dense = np.zeros((2, 4, 2))
    for number, row in enumerate(rows):
        dense[number, 1 + number] = row
        gradient = tf.IndexedSlices(row, [1 + number], dense_shape=[4, 2])
        optimizer.apply([gradient], [table])
    np.testing.assert_allclose(table.numpy(), -adasum.reduce(list(dense)), atol=TOLERANCE)


def test_variables_without_a_gradient_are_left_out():
    trained = variables()
    optimizer = tf_adasum.wrap(keras.optimizers.SGD(1.0), accumulate=2)
    for _ in range(2):
        optimizer.apply([None, tf.ones([6]), None], trained)
    assert [np.abs(v.numpy()).max() for v in trained] == [0.0, 1.0, 0.0]
