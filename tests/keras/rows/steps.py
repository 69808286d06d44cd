"""How often an optimizer steps, and what it does to gradients and weights on the way."""

from __future__ import annotations

import functools

import keras
import tensorflow as tf

from tests.keras.registry import ALIKE, row
from tests.keras.run import BATCH, fitted, momentum
from tests.training.replicas import small_model

steps = functools.partial(row, "Steps")
clipping = functools.partial(steps, cell=ALIKE, note="every replica clips its own gradient")


@steps("gradient_accumulation_steps", full=True)
def keras_accumulation(run):
    return fitted(run, lambda: momentum(gradient_accumulation_steps=2))


@steps("wrap(accumulate=)", note="one device: Keras' gradient_accumulation_steps")
def accumulation(run):
    with run.scope():
        model = small_model()
        if run.is_plain:
            optimizer = momentum(gradient_accumulation_steps=2)
        else:
            optimizer = run.wrap(momentum(), accumulate=2)
        model.compile(optimizer, "mse")
    return run.result(model, run.fit(model, *run.examples(4)))


@steps("steps_per_execution, finite data", full=True)
def steps_per_execution(run):
    return fitted(run, num_batches=5, steps_per_execution=2)


@steps("steps_per_execution, endless data")
def steps_per_execution_endless(run):
    model = run.compiled(steps_per_execution=2)
    data = tf.data.Dataset.from_tensor_slices(run.examples(5)).batch(BATCH).repeat()
    return run.result(model, run.fit(model, data, steps_per_epoch=4))


@steps("jit_compile=True", full=True)
def jit_compile(run):
    return fitted(run, jit_compile=True)


@steps("jit_compile=True, mixed_bfloat16, steps_per_execution", tolerance=2e-2, full=True)
def jit_compile_of_several(run):
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    try:
        return fitted(run, jit_compile=True, steps_per_execution=2)
    finally:
        keras.mixed_precision.set_dtype_policy("float32")


@steps("run_eagerly", full=True)
def run_eagerly(run):
    return fitted(run, run_eagerly=True)


@steps("use_ema", full=True)
def moving_average(run):
    return fitted(run, lambda: momentum(use_ema=True, ema_momentum=0.7))


@steps("use_ema, ema_overwrite_frequency")
def moving_average_that_overwrites(run):
    options = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 2}
    return fitted(run, lambda: momentum(**options))


@clipping("clipnorm")
def clipnorm(run):
    return fitted(run, lambda: momentum(clipnorm=0.1))


@clipping("global_clipnorm", full=True)
def global_clipnorm(run):
    return fitted(run, lambda: momentum(global_clipnorm=0.1))


@clipping("clipvalue", full=True)
def clipvalue(run):
    return fitted(run, lambda: momentum(clipvalue=0.01))


@steps("weight_decay")
def weight_decay(run):
    def optimizer():
        made = keras.optimizers.AdamW(0.01, weight_decay=0.1)
        made.exclude_from_weight_decay(var_names=["bias"])
        return made

    return fitted(run, optimizer)


@steps("constraints", full=True)
def constraints(run):
    layer = keras.layers.Dense(
        9,
        kernel_constraint=keras.constraints.MaxNorm(0.5),
        bias_constraint=keras.constraints.NonNeg(),
    )
    model = run.compiled(lambda: small_model(layer))
    return run.result(model, run.fit(model, *run.examples()))


@steps("learning rate schedules", full=True)
def schedules(run):
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 6, warmup_target=0.1, warmup_steps=2)
    return fitted(run, lambda: momentum(schedule))


@steps("learning_rate assigned between two fits")
def assigned_rate(run):
    model = run.compiled()
    first = run.fit(model, *run.examples())
    model.optimizer.learning_rate = 0.01
    rate = float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
    return run.result(model, first, more=run.fit(model, *run.examples()), rate=rate)
