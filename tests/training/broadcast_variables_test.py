"""broadcast_variables: one rank's values on all ranks, of models, optimizers and lists."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, everywhere, examples, small_model, strategy
from tf_adasum.collectives.communicator import world

LAST = world().size - 1


@pytest.mark.parametrize("root", sorted({0, LAST}))
def test_broadcast_variables_of_a_list(root):
    rank = world().rank
    with strategy(LOCAL[-1]).scope():
        distributed = tf.Variable(tf.zeros([3], tf.bfloat16))
        on_read = tf.Variable(
            tf.zeros([2]), synchronization=tf.VariableSynchronization.ON_READ, trainable=False
        )
    own = [tf.Variable(rank + 0.5), tf.Variable([True, rank == root]), tf.Variable(tf.zeros([0]))]
    keras_own = keras.Variable(np.full([2, 2], rank))
    for copy in [*distributed.values, *on_read.values]:
        copy.assign(tf.cast(tf.fill(copy.shape, rank + 1), copy.dtype))
    tf_adasum.broadcast_variables([distributed, *own, keras_own, on_read], root)
    for copy in [*distributed.values, *on_read.values]:
        np.testing.assert_array_equal(tf.cast(copy, tf.float32), np.full(copy.shape, root + 1))
    assert float(own[0]) == root + 0.5
    assert own[1].numpy().tolist() == [True, True]
    np.testing.assert_array_equal(keras_own.numpy(), np.full([2, 2], root))


def test_broadcast_variables_of_an_optimizer_and_of_a_plain_model():
    keras.utils.set_random_seed(world().rank)
    model = small_model(keras.layers.Dropout(0.5))
    model.compile(optimizer=keras.optimizers.Adam(0.1 * (world().rank + 1)))
    model.optimizer.build(model.trainable_variables)
    tf_adasum.broadcast_variables(model.optimizer)
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.1, rtol=1e-6)
    tf_adasum.broadcast_variables(model)
    for variable in model.variables:
        rows = everywhere(variable.numpy())
        np.testing.assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))


def test_a_variable_that_may_have_any_length():
    rank = world().rank
    variable = tf.Variable(tf.fill([3, 2], float(rank)), shape=[None, 2])
    tf_adasum.broadcast_variables([variable], root=LAST)
    np.testing.assert_array_equal(variable, np.full([3, 2], LAST))


def test_a_model_computes_with_what_the_root_has_learned_of_the_data():
    """Normalization computes with what it made of its variables when it adapted."""
    x = examples(8)[0] * (1.0 + world().rank) + world().rank
    layer = keras.layers.Normalization()
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    layer.adapt(x)
    tf_adasum.broadcast_variables(model, root=LAST)
    rows = everywhere(model.predict(np.ones_like(x[:1]), verbose=0))
    np.testing.assert_array_equal(rows, np.broadcast_to(rows[LAST], rows.shape))
    mean = keras.ops.convert_to_numpy(layer.adapt_mean)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer.mean).ravel(), mean, rtol=1e-6)
