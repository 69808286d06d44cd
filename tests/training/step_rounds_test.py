"""Optimizers of one step exchange after as many calls where rows are counted."""

import contextlib

import keras
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.training.replicas import LOCAL, examples, strategy
from tests.training.unlike_batches import BATCH, SHARES


class TwoOptimizers(keras.Model):
    """Its step applies the compiled optimizer to one layer and `other` to the other."""

    def __init__(self, other):
        super().__init__()
        self.dense, self.second, self.other = keras.layers.Dense(2), keras.layers.Dense(1), other

    def call(self, x):
        return self.second(self.dense(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        for layer, optimizer in ((self.dense, self.optimizer), (self.second, self.other)):
            weights = layer.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def two_optimizers(first, second):
    with strategy(LOCAL[-1], batch_share=SHARES).scope():
        model = TwoOptimizers(second())
        model.compile(first())
    return model


def sgd():
    return keras.optimizers.SGD(0.1)


def scaled(optimizer, **settings):
    return keras.optimizers.LossScaleOptimizer(adasum.wrap(optimizer, **settings))


UNLIKE = {
    "accumulate": (lambda: adasum.wrap(sgd()), lambda: adasum.wrap(sgd(), accumulate=2)),
    "local steps": (lambda: adasum.wrap(sgd(), steps_per_sync=2), lambda: adasum.wrap(sgd())),
    "plain": (lambda: adasum.wrap(sgd(), accumulate=2), sgd),
    "rounds": (adasum.optimizers.ZeroOneAdam, adasum.optimizers.ZeroOneAdam),
    "scaled": (lambda: scaled(sgd()), lambda: scaled(sgd(), accumulate=2)),
}


@pytest.mark.parametrize("optimizers", UNLIKE.values(), ids=UNLIKE)
def test_optimizers_of_unlike_rounds_are_refused_where_rows_are_counted(optimizers):
    """The first to exchange would let the rows of the other one's round count anew."""
    model = two_optimizers(*optimizers)
    wanted = "exchange after as many calls, with batch_share. Received: "
    is_refused = model.distribute_strategy.num_replicas_in_sync > 1
    with pytest.raises(ValueError, match=wanted) if is_refused else contextlib.nullcontext():
        model.fit(*examples(2 * BATCH), BATCH, verbose=0)


def test_optimizers_of_one_round_or_without_a_step_are_not_refused():
    model = two_optimizers(
        lambda: adasum.wrap(sgd(), accumulate=2), lambda: adasum.wrap(sgd(), steps_per_sync=2)
    )
    with model.distribute_strategy.scope():
        model.unused = adasum.wrap(sgd(), accumulate=3)
    before = model.predict(examples(1)[0], verbose=0)
    model.fit(*examples(2 * BATCH), BATCH, verbose=0)
    assert (model.predict(examples(1)[0], verbose=0) != before).all()
