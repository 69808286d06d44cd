"""jit_compile=True: XLA compiles forward and backward pass, and the weights are those without."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tf_adasum
from tests.training.linear_model import OwnStep, Prediction
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

TOLERANCE = 1e-5
# bfloat16 has 8 bits; XLA rounds to them elsewhere, on one device without a strategy too.
BFLOAT16 = 2e-2
# So it does in float16, by 4e-5 to 8e-5 on one device: XLA of TensorFlow 2.16 and 2.17, and any on
# a CPU that computes in float16 itself (AVX512-FP16), as TensorFlow then does without XLA.
FLOAT16 = 5e-4
# Of one replica Keras compiles the whole step.
WITH_PEERS = [num_local for num_local in LOCAL if num_local * world().size > 1]
local_replicas = pytest.mark.parametrize("num_local", WITH_PEERS)


def normalized() -> keras.Model:
    return small_model(keras.layers.BatchNormalization(momentum=0.8, epsilon=0.1))


def added_losses(model_class: type = keras.Model) -> keras.Model:
    inputs = keras.Input((NUM_FEATURES,))
    hidden = keras.layers.Dense(9, activation="tanh", kernel_regularizer="l2")(inputs)
    hidden = keras.layers.BatchNormalization(momentum=0.8, epsilon=0.1)(Prediction()(hidden))
    return model_class(inputs, keras.layers.Dense(NUM_OUTPUTS)(hidden))


def rnn(model_class: type = keras.Model) -> keras.Model:
    """Some steps are masked, for the loss too; the loop keeps tensors for its gradient."""
    inputs = keras.Input((NUM_FEATURES,))
    steps = keras.layers.Reshape((NUM_FEATURES, 1))(inputs)
    hidden = keras.layers.Masking(0.0)(steps)
    hidden = keras.layers.SimpleRNN(6, return_sequences=True)(hidden)
    return model_class(inputs, keras.layers.Dense(NUM_OUTPUTS)(hidden))


class Case(NamedTuple):
    """What is trained with jit_compile=True and without, and how far apart the weights may be."""

    make: Callable[[], keras.Model]
    settings: Mapping = MappingProxyType({})
    options: Mapping = MappingProxyType({})
    policy: str = "float32"
    tolerance: float = TOLERANCE


CASES = {
    "own train_step": Case(lambda: added_losses(OwnStep)),
    "accumulate, steps": Case(added_losses, {"accumulate": 2}, {"steps_per_execution": 2}),
    "bfloat16": Case(normalized, policy="mixed_bfloat16", tolerance=BFLOAT16),
    "masked loop": Case(rnn),
    "float16, gradients": Case(
        normalized, {"mode": "gradient"}, policy="mixed_float16", tolerance=FLOAT16
    ),
}
LONG = ("accumulate, steps", "masked loop", "float16, gradients")
NAMES = [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES]


def compiled(case: Case, num_local: int, jit_compile: bool) -> keras.Model:
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(case.policy)
    try:
        with strategy(num_local).scope():
            keras.utils.set_random_seed(7)
            model = case.make()
            optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.05, momentum=0.9), **case.settings)
            model.compile(optimizer, "mse", jit_compile=jit_compile, **case.options)
    finally:
        keras.mixed_precision.set_dtype_policy(before)
    return model


def trained(model: keras.Model) -> list[np.ndarray]:
    """Weights and losses after three batches; half of the replicas have no row of the last one."""
    x, y, options = data(model)
    history = model.fit(x, y, shuffle=False, **options).history
    assert_equal_on_ranks(model.trainable_variables)
    return [*model.get_weights(), np.asarray(history["loss"])]


def data(model: keras.Model):
    number = model.distribute_strategy.num_replicas_in_sync
    x, y = examples(8 * number + max(1, number // 2))
    x[: 4 * number, 0] = 0  # masked
    if len(model.output_shape) == 3:
        y = np.repeat(y[:, None], NUM_FEATURES, 1)
    return x, y, {"batch_size": 4 * number, "verbose": 0}


def assert_close(got, expected, tolerance=TOLERANCE) -> None:
    for value, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(value, want, rtol=0, atol=tolerance)


def function_names() -> set[str]:
    gc.collect()  # else functions of earlier models might go in between
    return set(context.context().list_function_names())


def operations(names: set[str]) -> dict[bool, set[str]]:
    """Types of the operations in functions that XLA must compile (True), and in others."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for name in names:
        try:
            definition = context.context().get_function_def(name)
        except tf.errors.NotFoundError:  # of data whose iterator has ended since; not the model's
            continue
        found[definition.attr["_XlaMustCompile"].b] |= {node.op for node in definition.node_def}
    return found


def lines_of(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tf_adasum"]


@local_replicas
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_without(name, num_local, caplog):
    case = CASES[name]
    expected = trained(compiled(case, num_local, False))
    before = function_names()
    model = compiled(case, num_local, True)
    assert_close(trained(model), expected, case.tolerance)
    found = operations(function_names() - before)
    # TanhGrad is the backward pass; a loop's are in functions that compiled ones call.
    passes = {"While"} if case.make is rnn else {"Tanh", "TanhGrad"}
    assert passes <= found[True]
    assert not passes & found[False]
    assert lines_of(caplog) == []


@pytest.mark.long
@local_replicas
def test_evaluate_and_predict(num_local):
    model = compiled(Case(normalized), num_local, True)
    x, y, options = data(model)
    before = function_names()
    loss, outputs = model.evaluate(x, y, **options), model.predict(x, **options)
    found = operations(function_names() - before)
    expected = model(x).numpy()
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(loss, np.square(expected - y).mean(), rtol=TOLERANCE)
    assert "Tanh" in found[True]
    assert "Tanh" not in found[False]


class Noise(keras.Layer):
    def call(self, inputs):
        return inputs + 0 * tf.random.normal([9])


# What XLA can't take, and what the line in the log says to do.
UNCOMPILED = {
    "synchronized": (
        lambda: small_model(keras.layers.BatchNormalization(synchronized=True)),
        "synchronized=False",
    ),
    "loop in an own train_step": (lambda: rnn(OwnStep), "Leave train_step to Keras"),
    "tf.random": (lambda: small_model(Noise()), "keras.random"),
}


@pytest.mark.long
@local_replicas
@pytest.mark.parametrize("name", UNCOMPILED)
def test_not_compiled_and_says_so(name, num_local, caplog):
    make, advice = UNCOMPILED[name]
    expected = trained(compiled(Case(make), num_local, False))
    assert_close(trained(compiled(Case(make), num_local, True)), expected)
    assert len(lines_of(caplog)) == (world().rank == 0)
    assert all(advice in line for line in lines_of(caplog))


class Exchanges(keras.Layer):
    """Looks at the other replicas in the forward pass."""

    def call(self, inputs):
        replica = tf.distribute.get_replica_context()
        mean = tf.reduce_mean(inputs)
        return inputs - mean if replica is None else inputs - replica.all_reduce("MEAN", mean)


@local_replicas
def test_layer_that_exchanges_is_refused_in_one_sentence(num_local):
    model = compiled(Case(lambda: small_model(Exchanges())), num_local, True)
    with pytest.raises(ValueError, match=r"supports_jit = False on the layer"):
        trained(model)


@local_replicas
def test_own_loop_compiles_inside_of_the_replica(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1))
        optimizer.build(model.trainable_variables)
    x, y = map(tf.constant, examples(4))

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y)) / replicas.num_replicas_in_sync
        return tape.gradient(loss, model.trainable_variables)

    def run(passes, jit_compile=None):
        def step():
            optimizer.apply(passes(), model.trainable_variables)

        tf.function(lambda: replicas.run(step), jit_compile=jit_compile)()

    start = model.get_weights()
    with pytest.raises(ValueError, match=r"inside of strategy\.run"):
        run(gradients, jit_compile=True)
    run(gradients)
    expected = model.get_weights()
    model.set_weights(start)
    run(tf.function(gradients, jit_compile=True))
    for got, want in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("reduce_op", ["SUM", "MEAN"])
def test_a_value_per_process_is_reduced_outside_of_what_is_compiled(reduce_op):
    replicas = strategy(1)

    def reduced():
        return replicas.reduce(reduce_op, tf.constant(2.0), axis=None)

    compiled_too = tf.function(reduced, jit_compile=True)
    if replicas.num_replicas_in_sync > 1:
        with pytest.raises(ValueError, match=r"outside of functions that XLA compiles"):
            compiled_too()
    else:
        assert float(compiled_too()) == 2
    total = 2 * (replicas.num_replicas_in_sync if reduce_op == "SUM" else 1)
    assert float(tf.function(reduced)()) == total
