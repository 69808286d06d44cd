"""What the tests of optimizers that exchange momenta share: gradients, and steps of own loops."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tests.reference import adasum, mean
from tf_adasum import compression

NUM_ELEMENTS = 203
SIGN = compression.Sign(least_elements=0)
REDUCTIONS = {"mean": mean.reduce, "adasum": adasum.reduce}


def drawn_gradients(num_steps: int, number: int) -> np.ndarray:
    """[step, replica, element]: one direction, and noise."""
    random = np.random.default_rng(0)
    common = random.normal(size=NUM_ELEMENTS)
    noise = random.normal(size=(num_steps, number, NUM_ELEMENTS))
    return (common + noise).astype(np.float32)


def made(replicas, make_optimizer):
    """An optimizer, and the variable that it was built for."""
    with replicas.scope():
        optimizer = make_optimizer()
        variable = keras.Variable(np.linspace(-1, 1, NUM_ELEMENTS).astype(np.float32), name="w")
        optimizer.build([variable])
    return optimizer, variable


def trained(optimizer, replicas, variable, gradients, read: Callable | None = None) -> list:
    """The weights after each step of `apply` in own loops, or what `read()` returns then."""

    @tf.function
    def step(of_replicas):
        def apply():
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            own = tf.gather(of_replicas, number)
            optimizer.apply([own / replicas.num_replicas_in_sync], [variable])

        replicas.run(apply)

    weights = []
    for of_replicas in gradients:
        step(tf.constant(of_replicas))
        weights.append(variable.numpy().copy() if read is None else read())
    return weights
