"""Losses that layers add, where a layer exchanges in the midst of the forward pass.

Replicas of one process take turns there: each must find what it has added itself, and no other's.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import LOCAL, NUM_FEATURES, NUM_OUTPUTS, examples, strategy

PER_REPLICA = 6


class Seen(keras.layers.Layer):
    """Keeps a mean over the replicas' activations, to which they come in training."""

    def build(self, shape):
        options = {"trainable": False, "aggregation": "mean", "name": "mean"}
        self.mean = self.add_weight(shape=(), initializer="zeros", **options)

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs))
        return inputs


class Small(keras.layers.Dense):
    """Adds a loss that grows with its outputs."""

    def call(self, inputs):
        outputs = super().call(inputs)
        self.add_loss(keras.ops.mean(outputs**2))
        return outputs


def _normalized():
    return keras.layers.BatchNormalization(synchronized=True)


def _small():
    return Small(5)


ORDERS = {
    "before": (_small, _normalized),
    "behind": (_normalized, _small),
    "both": (_small, _normalized, _small),
    "statistic": (_small, Seen),
    "alone": (_small, _small),
}
JIT = {"jit_compile": True}  # with none that exchanges, the call of the model is compiled


def _made(optimizer, makers, **options) -> keras.Model:
    keras.utils.set_random_seed(5)
    first = [keras.Input((NUM_FEATURES,)), keras.layers.Dense(4, "tanh")]
    layers = [make() for make in makers]
    model = keras.Sequential([*first, *layers, keras.layers.Dense(NUM_OUTPUTS)])
    model.compile(optimizer, "mse", **options)
    return model


@pytest.mark.parametrize(
    ("order", "options"),
    [*((order, {}) for order in ORDERS), ("both", {"run_eagerly": True}), ("alone", JIT)],
)
@pytest.mark.parametrize("num_local", LOCAL)
def test_each_replica_has_the_losses_that_it_has_added(num_local, order, options):
    """The mean of the gradients is that of one device, and so are the logs."""
    optimizer = keras.optimizers.SGD(0.05)
    plain = _made(optimizer, ORDERS[order])
    replicas = strategy(num_local, reductions=[(".*", "mean")])
    with replicas.scope():
        wrapped = tf_adasum.wrap(keras.optimizers.SGD(0.05), mode="gradient")
        model = _made(wrapped, ORDERS[order], **options)
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(2 * batch)
    expected, losses = (
        each.fit(x, y, batch, epochs=2, shuffle=False, verbose=0).history["loss"]
        for each in (plain, model)
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for own, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        model.evaluate(x, y, batch, verbose=0), plain.evaluate(x, y, batch, verbose=0), rtol=1e-5
    )
