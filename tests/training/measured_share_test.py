"""Shares of batches that are measured."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import assert_equal_on_ranks, everywhere, examples, strategy
from tf_adasum.collectives.communicator import world


class Slow(keras.layers.Layer):
    """Takes so many seconds a row."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.rows = 0

    def call(self, x):
        late = tf.numpy_function(self._late, [x], x.dtype)
        late.set_shape(x.shape)
        return late

    def _late(self, x):
        self.rows += len(x)
        time.sleep(self.seconds * len(x))
        return x

    def compute_output_shape(self, shape):
        return shape


@pytest.mark.parametrize("how", ["plain", "delta"])
def test_measured_shares_give_the_slow_rank_less(how):
    """It is forty times slower than the others: no load of the machine makes them equal."""
    replicas = strategy(1, batch_share="measured")
    with replicas.scope():
        slow = Slow(0.02 if world().rank == 0 else 0.0005)
        model = keras.Sequential([keras.Input((4,)), slow, keras.layers.Dense(8)])
        optimizer = keras.optimizers.SGD(0.01)
        model.compile(optimizer if how == "plain" else tf_adasum.wrap(optimizer), loss="mse")
    x, y = examples(4 * 8 * world().size)
    rows = []
    assert replicas.batch_shares == pytest.approx([1 / world().size] * world().size)
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: rows.append(slow.rows))
    model.fit(x, y, 8 * world().size, epochs=3, verbose=0, callbacks=[note])
    found = replicas.batch_shares
    assert (everywhere(found) == found).all() and sum(found) == pytest.approx(1)
    assert all(found[0] < 0.5 * other for other in found[1:])
    of_epochs = everywhere(np.diff([0, *rows])).sum(axis=0)
    # Where ranks are more than twice as fast as rank 0 its rows are few; an idle one computes one.
    assert of_epochs[0] == len(x) and (of_epochs >= len(x)).all()
    assert world().size == 1 or everywhere(rows[-1] - rows[-2])[0] < 0.7 * len(x) / world().size
    assert_equal_on_ranks(model.trainable_variables)
