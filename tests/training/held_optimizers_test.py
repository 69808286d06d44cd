"""A wrapped optimizer takes steps of `fit` where the model or a layer holds it; else it is refused.

Nobody would know whether losses come divided by the number of replicas, but who says it.
"""

import contextlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.training.replicas import LOCAL, NUM_FEATURES, examples, strategy
from tf_adasum.collectives.communicator import world

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
HELD = {
    "attribute": lambda model, optimizer: setattr(model, "mine", optimizer),
    "layer": lambda model, optimizer: setattr(model.dense, "mine", optimizer),
    "set": lambda model, optimizer: setattr(model, "mine", {optimizer}),
    "dict": lambda model, optimizer: setattr(model, "mine", {"one": [optimizer]}),
    "compiled": lambda model, optimizer: model.compile(optimizer),
}
NOT_HELD = {
    "closure": lambda model, optimizer: None,
    "namespace": lambda model, optimizer: setattr(
        model, "mine", types.SimpleNamespace(o=optimizer)
    ),
}


class OwnStep(keras.Model):
    """Its step takes the optimizer that it is given, wherever that is held."""

    def __init__(self, take_step):
        super().__init__(name="own_step")
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")
        self.dense.build((None, NUM_FEATURES))
        self.take_step = take_step

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y[:, :1]))
        variables = self.trainable_variables
        self.take_step(tape.gradient(loss, variables), variables)
        return {"loss": loss}


def trained(replicas, hold, optimizer, global_batch):
    with replicas.scope():
        model = OwnStep(optimizer.apply)
        model.compile()
        hold(model, optimizer)
    x, y = examples(2 * global_batch)
    model.fit(x, y, batch_size=global_batch, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def sgd():
    return keras.optimizers.SGD(0.05, name="mine")


@local_replicas
@pytest.mark.parametrize("hold", HELD.values(), ids=HELD)
def test_a_held_optimizer_trains_as_on_one_device(hold, num_local):
    replicas = strategy(num_local, reductions=[(".*", "mean")])
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        wrapped = adasum.wrap(sgd(), mode="gradient")
    expected = trained(tf.distribute.get_strategy(), lambda *_: None, sgd(), 4 * number)
    for one, other in zip(trained(replicas, hold, wrapped, 4 * number), expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@local_replicas
def test_one_that_is_not_held_trains_where_wrap_is_told_how_its_losses_come(num_local):
    replicas = strategy(num_local, reductions=[(".*", "mean")])
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        wrapped = adasum.wrap(sgd(), mode="gradient", divided_loss=False)
    expected = trained(tf.distribute.get_strategy(), lambda *_: None, sgd(), 4 * number)
    for one, other in zip(trained(replicas, lambda *_: None, wrapped, 4 * number), expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@local_replicas
@pytest.mark.parametrize("hold", NOT_HELD.values(), ids=NOT_HELD)
def test_one_that_is_not_held_is_refused_where_there_are_peers(hold, num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        wrapped = adasum.wrap(sgd())
    said = rf"^rank {world().rank}: Expected .*'mine' in an attribute.*'own_step'"
    has_peers = replicas.num_replicas_in_sync > 1
    raised = pytest.raises(RuntimeError, match=said) if has_peers else contextlib.nullcontext()
    with raised:
        trained(replicas, hold, wrapped, 4 * replicas.num_replicas_in_sync)
