"""Small floats and the scaling of losses."""

from __future__ import annotations

import contextlib
import functools

import keras
import numpy as np

from tests.keras.registry import row
from tests.keras.run import BATCH, momentum
from tests.training.replicas import NUM_OUTPUTS, small_model

precision = functools.partial(row, "Precision")


@contextlib.contextmanager
def policy(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def fitted_in(run, name, optimizer=momentum):
    with policy(name):
        model = run.compiled(make_optimizer=optimizer)
        return run.result(model, run.fit(model, *run.examples(4)))


@precision("mixed_float16", tolerance=3e-3, full=True)
def float16(run):
    return fitted_in(run, "mixed_float16")


@precision("mixed_bfloat16", tolerance=2e-2)
def bfloat16(run):
    return fitted_in(run, "mixed_bfloat16")


@precision("float64", tolerance=1e-9, full=True)
def float64(run):
    before = keras.config.floatx()
    keras.config.set_floatx("float64")  # Keras computes losses and metrics in it, too
    try:
        return fitted_in(run, "float64")
    finally:
        keras.config.set_floatx(before)


def with_overflow(run, name, optimizer):
    """The third of six batches overflows on one replica: nobody takes that step."""
    with policy(name):
        model = run.compiled(make_optimizer=optimizer)
    x, y = run.examples(6)
    x[2 * BATCH] = np.inf
    run.fit(model, x, y, epochs=1)
    run.models.append(model)
    scale = float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale))
    steps = int(keras.ops.convert_to_numpy(model.optimizer.inner_optimizer.iterations))
    assert steps == 5
    return {"weights": model.get_weights(), "scale": scale}


@precision("mixed_float16, inf on one replica", tolerance=3e-3, full=True)
def float16_overflow(run):
    return with_overflow(run, "mixed_float16", momentum)


@precision(
    "mixed_bfloat16, LossScaleOptimizer, inf on one replica",
    tolerance=2e-2,
)
def bfloat16_overflow(run):
    scaled = functools.partial(keras.optimizers.LossScaleOptimizer, initial_scale=1024.0)
    return with_overflow(run, "mixed_bfloat16", lambda: scaled(momentum()))


@precision("an output in float32 of a mixed_bfloat16 model", tolerance=2e-2, full=True)
def float32_output(run):
    def make():
        with policy("mixed_bfloat16"):
            return small_model(keras.layers.Dense(NUM_OUTPUTS, dtype="float32"))

    model = run.compiled(make)
    return run.result(model, run.fit(model, *run.examples()))
