"""What replicas assign to by themselves may differ when `fit` ends; rank 0 says so, once."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    data_of,
    everywhere,
    strategy,
)
from tf_adasum.collectives.communicator import world

# Before 3.14 Keras compares its batch size with the rows of a batch, which are None.
HAS_STATES = int(keras.version().split(".")[1]) >= 14

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


class Centred(keras.layers.Layer):
    """Takes a moving mean off, which it keeps without or with an aggregation."""

    def __init__(self, aggregation=None, moves=True):
        super().__init__()
        self.aggregation, self.moves = aggregation, moves

    def build(self, shape):
        options = {"shape": shape[1:], "initializer": "zeros", "trainable": False}
        self.mean = self.add_weight(name="mean", aggregation=self.aggregation, **options)

    def call(self, inputs, training=False):
        if training and self.moves:
            now = keras.ops.mean(inputs, axis=0)
            self.mean.assign(0.9 * self.mean + 0.1 * now)
        return inputs - self.mean


def fitted(num_local, *layers, calls=1):
    """A model of these layers and a dense one, for four rows on each replica."""
    with strategy(num_local).scope():
        inputs = keras.Input(batch_shape=(4, NUM_FEATURES))
        model = keras.Sequential([inputs, *layers, keras.layers.Dense(NUM_OUTPUTS)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    for _ in range(calls):
        model.fit(**data_of(model))
    return model


def said(caplog):
    texts = [record.getMessage() for record in caplog.records if record.name == "tf_adasum"]
    return [text for text in texts if "unlike values of" in text]


@local_replicas
def test_rank_0_says_once_what_differs(num_local, caplog):
    model = fitted(num_local, Centred(), Centred(), calls=2)
    if model.distribute_strategy.num_replicas_in_sync == 1 or world().rank:
        assert said(caplog) == []
        return
    (text,) = said(caplog)
    assert f"{model.layers[0].mean.path!r} and 1 more, assigned without an aggregation" in text


@local_replicas
def test_as_it_advises_predictions_do_not_hang_on_replicas(num_local):
    model = fitted(num_local, Centred())
    tf_adasum.broadcast_variables(model)
    x = data_of(model)["x"]
    copies = getattr(model.layers[0].mean.value, "values", None) or [model.layers[0].mean.value]
    for copy in copies:
        np.testing.assert_array_equal(everywhere(copy), [everywhere(copies[0])[0]] * world().size)
    want = (x - copies[0].numpy()) @ model.layers[1].kernel.numpy() + model.layers[1].bias.numpy()
    np.testing.assert_allclose(model.predict(x, verbose=0), want, rtol=1e-4, atol=1e-5)


class Named(keras.layers.Layer):
    """Keeps a text."""

    def build(self, shape):
        text = tf.constant(f"rank {world().rank}")
        options = {"initializer": lambda shape, dtype: text, "trainable": False}
        self.text = self.add_weight(shape=(), dtype="string", name="text", **options)

    def call(self, inputs):
        return inputs


def states():
    recurrent = keras.layers.GRU(3, stateful=HAS_STATES)
    return [keras.layers.Reshape((1, NUM_FEATURES)), recurrent, keras.layers.Dropout(0.5)]


@local_replicas
@pytest.mark.parametrize(
    "layers",
    [
        lambda: [Centred("mean")],
        lambda: [Centred(moves=False)],
        lambda: [Named()],
        lambda: [keras.layers.BatchNormalization()],
        states,
        lambda: [keras.layers.SpectralNormalization(keras.layers.Dense(3))],
    ],
    ids=["with an aggregation", "equal", "a text", "averaged", "states", "of weights"],
)
def test_nothing_is_said_of_what_is_equal_or_meant(layers, num_local, caplog):
    fitted(num_local, *layers())
    assert said(caplog) == []
