"""How often an optimizer steps, and what it does to gradients and weights on the way."""

from __future__ import annotations

import functools

import keras
import tensorflow as tf

from tests.keras.registry import ALIKE, row
from tests.keras.run import BATCH, momentum

steps = functools.partial(row, "Steps")
OWN = "every replica clips its own gradient, so all have the same rows here"


def fitted(run, make_optimizer=momentum, num_batches=4, **options):
    model = run.compiled(make_optimizer=make_optimizer, **options)
    return run.result(model, run.fit(model, *run.examples(num_batches)))


@steps("gradient_accumulation_steps")
def keras_accumulation(run):
    return fitted(run, lambda: momentum(gradient_accumulation_steps=2))


@steps("wrap(accumulate=)", note="one device: Keras' gradient_accumulation_steps")
def accumulation(run):
    with run.scope():
        optimizer = momentum(gradient_accumulation_steps=2 if run.is_plain else None)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
        model.compile(run.wrap(optimizer, **{} if run.is_plain else {"accumulate": 2}), "mse")
    return run.result(model, run.fit(model, *run.examples(4)))


@steps("steps_per_execution, finite data")
def steps_per_execution(run):
    return fitted(run, num_batches=5, steps_per_execution=2)


@steps("steps_per_execution, endless data")
def steps_per_execution_endless(run):
    model = run.compiled(steps_per_execution=2)
    data = tf.data.Dataset.from_tensor_slices(run.examples(5)).batch(BATCH).repeat()
    return run.result(model, run.fit(model, data, steps_per_epoch=4))


@steps("clipnorm", cell=ALIKE, note=OWN)
def clipnorm(run):
    return fitted(run, lambda: momentum(clipnorm=0.1))


@steps("run_eagerly")
def run_eagerly(run):
    return fitted(run, run_eagerly=True)
