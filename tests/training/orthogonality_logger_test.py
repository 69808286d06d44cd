"""The orthogonality in the logs of `fit` is that of the vectors that the replicas exchange."""

from __future__ import annotations

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum as reference
from tests.training.replicas import (
    LOCAL,
    everywhere,
    examples,
    small_model,
    strategy,
    sub_batch,
)
from tf_adasum.callbacks import OrthogonalityLogger

RATE = 0.05
NUM_STEPS = 2


class Weights(keras.callbacks.Callback):
    """The weights before each step."""

    def on_train_begin(self, logs=None):
        self.before = []

    def on_train_batch_begin(self, batch, logs=None):
        variables = self.model.trainable_variables
        self.before.append([variable.value.values[0].numpy() for variable in variables])


def compiled(num_local, mode="gradient", rules=None, **settings):
    with strategy(num_local, reductions=rules).scope():
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(RATE), mode=mode, **settings)
        model.compile(optimizer, loss="mse")
    return model


def fit(model, callbacks, epochs=1, num_steps=NUM_STEPS):
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(num_steps * batch)
    history = model.fit(
        x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
    )
    return history.history


def gradients(weights, x, y):
    """In float32, as in the step."""
    model = small_model()
    for variable, value in zip(model.trainable_variables, weights):
        variable.assign(value)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    values = [variable.value for variable in model.trainable_variables]
    return [gradient.numpy() for gradient in tape.gradient(loss, values)]


def exchanged(mode, weights, x, y):
    """What a replica brings to the exchange."""
    grads = gradients(weights, x, y)
    if mode == "gradient":
        return grads
    steps = [old - grad * np.float32(RATE) for old, grad in zip(weights, grads)]
    return [new - old for new, old in zip(steps, weights)]


def expected(mode, num_local, before, num_replicas):
    """Numerator and denominator of each variable, summed over the steps, in float64."""
    x, y = examples(len(before) * 4 * num_replicas)
    sums = 0
    for step, weights in enumerate(before):
        rows = slice(step * 4 * num_replicas, (step + 1) * 4 * num_replicas)
        of_replicas = [
            exchanged(mode, weights, *(sub_batch(part[rows], r, num_local) for part in (x, y)))
            for r in range(num_replicas)
        ]
        sums = sums + np.array([_norms(leaves) for leaves in zip(*of_replicas)])
    return sums


def _norms(leaves):
    squares = [np.sum(np.square(leaf.astype(np.float64))) for leaf in leaves]
    return np.sum(np.square(reference.reduce(leaves))), sum(squares)


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_is_that_of_the_vectors_in_float64(mode, num_local, tmp_path):
    model = compiled(num_local, mode, rules=[("second/bias", "mean")])
    plain = fit(model, [])  # traces a step before there is a logger
    assert "orthogonality" not in plain
    step, weights = model.train_function, Weights()
    log = str(tmp_path / "log.csv")
    before_it = [keras.callbacks.CSVLogger(log), weights]
    logs = fit(model, [*before_it, OrthogonalityLogger(per_variable=True)])

    num_replicas = model.distribute_strategy.num_replicas_in_sync
    sums = expected(mode, num_local, weights.before, num_replicas)
    paths = [variable.path for variable in model.trainable_variables]
    names = {f"orthogonality/{path}": i for i, path in enumerate(paths)}
    if num_replicas > 1:
        del names[f"orthogonality/{paths[-1]}"]  # a mean is not measured
        sums = sums[:-1]
    total = sums[:, 0].sum() / sums[:, 1].sum()
    np.testing.assert_allclose(logs["orthogonality"], [total], rtol=0, atol=1e-6)
    assert {name for name in logs if "/" in name} == set(names)
    for name, index in names.items():
        ratio = sums[index, 0] / sums[index, 1]
        np.testing.assert_allclose(logs[name], [ratio], rtol=0, atol=1e-6, err_msg=name)
    assert (everywhere(logs["orthogonality"]) == logs["orthogonality"]).all()
    if tf_adasum.rank() == 0:
        with open(log) as file:
            (row,) = csv.DictReader(file)
        assert float(row["orthogonality"]) == logs["orthogonality"][0]
    assert model.train_function is step
    assert model.optimizer._adasum.exchange.measure is None


@pytest.mark.parametrize("settings", [{"steps_per_sync": 2}, {"accumulate": 2}], ids=str)
def test_steps_without_an_exchange_do_not_count(settings):
    """Epochs of one batch each, of which every other exchanges; and the step is traced once."""
    model = compiled(LOCAL[-1], "delta", **settings)
    logger = OrthogonalityLogger()
    values = fit(model, [logger], epochs=4, num_steps=1)["orthogonality"]
    if model.distribute_strategy.num_replicas_in_sync == 1:
        assert values == [1.0] * 4
        return
    assert np.isnan(values[0::2]).all()
    assert (np.array(values[1::2]) > 0).all() and (np.array(values[1::2]) < 2).all()
    step = logger._measured_step
    fit(model, [logger])
    assert logger._measured_step is step


def test_an_error_in_fit_puts_the_step_back():
    def fail(epoch, logs):
        raise RuntimeError("stop here")

    model = compiled(1)
    failing = keras.callbacks.LambdaCallback(on_epoch_begin=fail)
    with pytest.raises(RuntimeError, match="stop here"):
        fit(model, [OrthogonalityLogger(), failing])
    assert "orthogonality" not in fit(model, [])
    assert 0 < fit(model, [OrthogonalityLogger()])["orthogonality"][0] < 2


def test_refusals():
    with strategy(1).scope():
        model = small_model()
        model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match=r"wrap.*Received: SGD, not wrapped"):
        fit(model, [OrthogonalityLogger()])
    if hasattr(keras.optimizers, "MultiOptimizer"):  # Keras 3.12 has none
        with strategy(1).scope():
            wrapped = tf_adasum.wrap(keras.optimizers.SGD())
            plan = keras.optimizers.OptimizerMap(default_optimizer=wrapped)
            model = small_model()
            model.compile(keras.optimizers.MultiOptimizer(plan), loss="mse")
        with pytest.raises(ValueError, match=r"one wrapped.*which has several\. .*leave it out"):
            fit(model, [OrthogonalityLogger()])
    model = compiled(1)
    if model.distribute_strategy.num_replicas_in_sync > 1:
        with pytest.raises(ValueError, match="Give fit one of them"):
            fit(model, [OrthogonalityLogger(), OrthogonalityLogger()])
