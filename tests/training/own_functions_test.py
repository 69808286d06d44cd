"""A `tf.function` of a program's own around steps: AutoGraph leaves the library as it is."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import tf_adasum
from tests.rewritten import rewritten
from tests.training.replicas import LOCAL, examples, small_model, strategy


@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("num_local", LOCAL)
def test_a_wrapped_optimizer_is_not_rewritten_with_the_step(mode, num_local):
    """Each function that is takes long to trace."""
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.Adam(), mode=mode)
        optimizer.build(model.trainable_variables)
    x, y = examples(4)

    @tf.function
    def step():
        def of_each():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y)) / replicas.num_replicas_in_sync
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        return replicas.reduce("SUM", replicas.run(of_each), axis=None)

    with rewritten() as names:
        step.get_concrete_function()
    assert names - {"tf__of_each"} == {"tf__step"}
