"""A `tf.function` of a program's own around steps: AutoGraph leaves the library as it is."""

from __future__ import annotations

import sys

import keras
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, examples, small_model, strategy


@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("num_local", LOCAL)
def test_a_wrapped_optimizer_is_not_rewritten_with_the_step(mode, num_local):
    """Rewritten functions have "tf__" before their names; each takes long to trace."""
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

    rewritten = set()

    def note(frame, event, argument):
        if frame.f_code.co_name.startswith("tf__"):
            rewritten.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        step.get_concrete_function()
    finally:
        sys.setprofile(None)
    assert rewritten - {"tf__of_each"} == {"tf__step"}
