"""Random layers draw differently on every replica; batch normalization agrees when asked to."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.randomness import global_seeds

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


def masks(num_local, seed):
    """Two successive dropout masks of all N replicas: array [2, N, 64], on every rank."""
    replicas = strategy(num_local)
    with replicas.scope():
        layer = keras.layers.Dropout(0.5, seed=seed)
        layer.build((64,))

    @tf.function
    def draw():
        return replicas.run(lambda: layer(tf.ones([64]), training=True))

    drawn = [np.stack(replicas.experimental_local_results(draw())) for _ in range(2)]
    assert_equal_on_ranks([layer.seed_generator.state])
    return np.stack([np.concatenate(everywhere(mask > 0)) for mask in drawn])


@local_replicas
def test_every_replica_drops_its_own_units(num_local):
    drawn = masks(num_local, seed=5)
    distinct = {mask.tobytes() for mask in drawn.reshape(-1, 64)}
    assert len(distinct) == 2 * world().size * num_local
    np.testing.assert_array_equal(masks(num_local, seed=5), drawn)  # and runs repeat


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
def test_every_replica_draws_its_own_numbers_without_a_seed(in_graph, num_local):
    """Keras has a generator for each thread, and local replicas have threads of their own."""

    def drawn():
        keras.backend.clear_session()
        keras.utils.set_random_seed(5)
        replicas = strategy(num_local)

        @tf.function
        def draw():
            return replicas.run(lambda: keras.random.normal([64]))

        tf.config.run_functions_eagerly(not in_graph)
        try:
            steps = [np.stack(replicas.experimental_local_results(draw())) for _ in range(2)]
        finally:
            tf.config.run_functions_eagerly(False)
        assert_equal_on_ranks([global_seeds.existing()])
        return np.stack([np.concatenate(everywhere(step)) for step in steps])

    numbers = drawn()
    distinct = {each.tobytes() for each in numbers.reshape(-1, 64)}
    assert len(distinct) == 2 * world().size * num_local
    np.testing.assert_array_equal(drawn(), numbers)


@local_replicas
@pytest.mark.parametrize("jit_compile", [False, True])
def test_layers_may_draw_without_a_seed(jit_compile, num_local):
    """In fit, evaluate and another fit, each of which traces."""

    class Noise(keras.layers.Layer):
        def call(self, x, training=False):
            return x + keras.random.normal(keras.ops.shape(x)) if training else x

    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model(Noise())
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.05))
        model.compile(optimizer, "mse", jit_compile=jit_compile)
    x, y = examples(4 * replicas.num_replicas_in_sync)
    losses = []
    for _ in range(2):
        losses += model.fit(x, y, len(x), epochs=2, verbose=0).history["loss"]
        model.evaluate(x, y, len(x), verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
    assert np.isfinite(losses).all()


def test_a_single_replica_draws_as_keras_does():
    """Outside of replicas the hook changes nothing."""
    layer = keras.layers.Dropout(0.5, seed=5)
    inside = layer(tf.ones([64]), training=True)
    state = keras.random.SeedGenerator(5)
    np.testing.assert_array_equal(inside, keras.random.dropout(tf.ones([64]), rate=0.5, seed=state))


def drawn_by_operations(num_local, in_graph, number_of):
    """What tf.random's operations draw on all N replicas: array [2, N, 16], on every rank."""
    replicas = strategy(num_local)
    tf.random.set_seed(5)

    def draw():
        return tf.stack([number_of(), number_of()])

    run = tf.function(replicas.run) if in_graph else replicas.run
    own = np.stack(replicas.experimental_local_results(run(draw)), axis=1)
    return np.concatenate(everywhere(own), axis=1)


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("op_seed", [None, 3])
def test_every_replica_draws_its_own_numbers(op_seed, in_graph, num_local):
    def normal():
        return tf.random.normal([16], seed=op_seed)

    drawn = drawn_by_operations(num_local, in_graph, normal)
    of_replicas = {row.tobytes() for row in drawn[0]}
    assert len(of_replicas) == world().size * num_local
    np.testing.assert_array_equal(drawn_by_operations(num_local, in_graph, normal), drawn)


@local_replicas
def test_stateless_operations_draw_by_the_users_seed_alone(num_local):
    drawn = drawn_by_operations(
        num_local, True, lambda: tf.random.stateless_normal([16], seed=[1, 2])
    )
    np.testing.assert_array_equal(drawn, np.broadcast_to(drawn[0, 0], drawn.shape))


@local_replicas
def test_ranks_shuffle_alike_though_they_draw_their_own_numbers(num_local):
    replicas = strategy(num_local)
    replicas.run(lambda: tf.random.normal([4]))
    rows = everywhere([int(i) for i in tf.data.Dataset.range(50).shuffle(50)])
    np.testing.assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))
    assert (rows[0] != np.arange(50)).any()


@local_replicas
def test_synchronized_batch_normalization_sees_the_global_batch(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.BatchNormalization(momentum=0.0, synchronized=True),
            ]
        )
        model.compile(optimizer="sgd", loss="mse")
    x = np.random.default_rng(0).normal(size=(4 * number, 3)).astype(np.float32) * 2 + 1
    model.fit(x, x, batch_size=4 * number, verbose=0)
    normalization = model.layers[-1]
    np.testing.assert_allclose(normalization.moving_mean.numpy(), x.mean(0), atol=1e-5)
    np.testing.assert_allclose(normalization.moving_variance.numpy(), x.var(0), atol=1e-5)
    assert_equal_on_ranks(model.variables)
