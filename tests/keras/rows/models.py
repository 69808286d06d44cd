"""Models, training steps and loops of one's own."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from tests.keras.registry import row
from tests.keras.run import BATCH, momentum
from tests.training.gan import Gan
from tests.training.linear_model import OwnLoss
from tests.training.replicas import NUM_FEATURES, NUM_OUTPUTS, small_model

models = functools.partial(row, "Models and loops")


class Subclassed(keras.Model):
    """Layers in attributes, built by the first call."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(9, activation="tanh")
        self.outputs_ = [keras.layers.Dense(NUM_OUTPUTS), keras.layers.Dense(NUM_OUTPUTS)]

    def call(self, inputs, training=False):
        hidden = self.hidden(inputs)
        return self.outputs_[0](hidden) * self.outputs_[1](hidden)


@models("a subclass of Model, built by the first batch")
def subclassed(run):
    model = run.compiled(Subclassed)
    return run.result(model, run.fit(model, *run.examples()))


@models("a layer used twice, a model in a model", full=True)
def shared(run):
    def make():
        inputs, layer = keras.Input((NUM_FEATURES,)), keras.layers.Dense(NUM_FEATURES, "tanh")
        return keras.Model(inputs, small_model()(layer(layer(inputs))))

    model = run.compiled(make)
    return run.result(model, run.fit(model, *run.examples()))


@models("two models in one process, in turns")
def two(run):
    pair = [run.compiled(), run.compiled(Subclassed)]
    x, y = run.examples()
    told = [run.fit(model, x, y, epochs=1) for _ in range(2) for model in pair]
    first, second = (run.result(model) for model in pair)
    return {**first, "second": second["weights"], "told": told}


def own_model(kind):
    inputs = keras.Input((NUM_FEATURES,))
    return kind(inputs, keras.layers.Dense(NUM_OUTPUTS)(inputs))


class Halved(keras.Model):
    """A train_step that logs what is no metric."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"halved loss": loss / 2}


@models("a train_step of one's own")
def own_step(run):
    model = run.compiled(lambda: own_model(Halved))
    return run.result(model, run.fit(model, *run.examples()))


@models("a compute_loss of one's own", full=True)
def own_loss(run):
    model = run.compiled(lambda: own_model(OwnLoss))
    return run.result(model, run.fit(model, *run.examples()))


@models("strategy.run in a loop of one's own", full=True)
def own_loop(run):
    with run.scope():
        model, optimizer = small_model(), run.wrap(momentum())
    number = 1 if run.is_plain else run.number

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) / number
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def step(batch):
        if run.is_plain:
            return replica_step(*batch)
        losses = run.strategy.run(replica_step, batch)
        return run.strategy.reduce("SUM", losses, axis=None)

    data = tf.data.Dataset.from_tensor_slices(run.examples(6)).batch(BATCH)
    if not run.is_plain:
        data = run.strategy.experimental_distribute_dataset(data)
    losses = [float(step(batch)) for _ in range(2) for batch in data]
    return run.result(model, {"loss": losses})


@models("train_on_batch, test_on_batch", note="each rank passes its own rows")
def on_batches(run):
    model = run.compiled(metrics=["mae"])
    x, y = run.examples(4)
    told = []
    for batch in range(4):
        rows = run.own_rows(batch)
        told.append(model.train_on_batch(x[rows], y[rows]))
    told.append(model.test_on_batch(x[rows], y[rows]))
    # What they return is of the rank's own rows; the metrics of the last one were reset before.
    return run.result(model, counted=[len(each) for each in told])


@models("transfer learning, with a rule for the backbone that is frozen first")
def transfer(run):
    run.set_rules("backbone", "head")
    with run.scope():
        backbone = keras.Sequential(
            [keras.Input((NUM_FEATURES,)), keras.layers.Dense(9, "tanh")], name="backbone"
        )
        backbone.trainable = False
        head = keras.layers.Dense(NUM_OUTPUTS, name="head")
        model = keras.Sequential([backbone, head])
        model.compile(run.wrap(momentum()), "mse")
    x, y = run.examples()
    first = run.fit(model, x, y)
    frozen = backbone.get_weights()
    with run.scope():
        backbone.trainable = True
        model.compile(run.wrap(keras.optimizers.Adam(0.003)), "mse")
    return run.result(model, run.fit(model, x, y), first=first, frozen=frozen)


@models("clear_session between two models")
def cleared(run):
    first = run.compiled()
    x, y = run.examples()
    history = run.fit(first, x, y)
    weights = first.get_weights()
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    return run.result(run.compiled(Subclassed), history, first=weights) | {
        "again": run.fit(run.models[-1], x, y),
    }


@models("a GAN with two optimizers, with a rule for the generator")
def gan(run):
    run.set_rules("generator", "discriminator")
    with run.scope():
        model = Gan()
        rate = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01)
        model.compile(*(run.wrap(optimizer) for optimizer in rate))
    history = run.fit(model, *run.examples())
    run.models += [model.generator, model.discriminator]
    weights = [network.get_weights() for network in (model.generator, model.discriminator)]
    return {"weights": weights, "history": history}


@models("process sets: two halves of the ranks train two models at once")
def halves(run):
    ranks = tf_adasum.size()
    colors = range(min(2, ranks))
    made = {}
    for color in colors if run.is_plain else [tf_adasum.rank() % 2]:
        if not run.is_plain:
            run.set_communicator(tf_adasum.world().split(color=color))
        keras.utils.set_random_seed(11 + color)
        model = run.compiled()
        x, y = run.examples(3)
        run.fit(model, x * (1 + color), y)
        made[color] = model.get_weights()
    weights = []
    for color in colors:  # what a half has trained, its first rank tells all
        for index, like in enumerate(model.get_weights()):
            own = made.get(color, {index: like})[index]
            told = own if run.is_plain else tf_adasum.broadcast(tf.constant(own), color).numpy()
            assert color not in made or np.array_equal(told, own), "ranks of a half differ"
            weights.append(told)
    return {"weights": weights}
