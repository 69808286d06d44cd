"""wrap(sync=Deadline(...)): what is late is left out of a step, and goes into a later one.

What is left out where messages are late is told in C++ (//tests/cc:deadline_allreduce_test); here,
what becomes of it in a training.
"""

from __future__ import annotations

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum, mean
from tests.training.comparison import PER_REPLICA, check_fit, compiled_under, own_step
from tests.training.reference_training import Recipe
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tests.training.resumed import (
    Interrupt,
    Interruption,
    backup,
    begun,
    check_same,
    fit,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.own_variables import residual_variables
from tf_adasum.distribute.variables import local_copies

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
REFERENCES = {"adasum": adasum.reduce, "mean": mean.reduce}
AMPLE = 1e6


def momentum(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


def deadline(milliseconds=AMPLE, max_left_out=0.01):
    return {"sync": tf_adasum.sync.Deadline(milliseconds, max_left_out)}


@local_replicas
@pytest.mark.parametrize("reduction", REFERENCES)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
# Time enough; or none at all, where all that is late is waited for.
@pytest.mark.parametrize("settings", [deadline(), deadline(0, 0)])
def test_fit_where_nothing_is_left_out(settings, mode, reduction, num_local):
    replicas = strategy(num_local, reductions=[(".*", reduction)])
    model = compiled_under(replicas, momentum, mode, settings=settings)
    number = replicas.num_replicas_in_sync
    combine = REFERENCES[reduction]
    check_fit(model, Recipe(small_model, momentum, mode, number, num_local, combine=combine))
    assert model.optimizer.left_out == (0, 0.0, 0.0)


@pytest.mark.long
@local_replicas
@pytest.mark.parametrize("reduction", REFERENCES)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_fit_where_there_is_no_time(mode, reduction, num_local):
    """Up to half of it is left out: replicas stay the same, and learn."""
    replicas = strategy(num_local, reductions=[(".*", reduction)])
    make_model = lambda: small_model(keras.layers.Dense(100, activation="relu"))  # noqa: E731
    model = compiled_under(replicas, momentum, mode, make_model, settings=deadline(0, 0.5))
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(16 * batch)
    before = model.evaluate(x, y, batch_size=batch, verbose=0)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, epochs=3)
    assert_equal_on_ranks(model.trainable_variables)
    assert model.evaluate(x, y, batch_size=batch, verbose=0) < before
    left_out = model.optimizer.left_out
    assert 0 <= left_out.mean_share <= left_out.most_share <= 0.5
    assert 0 <= left_out.num_steps <= 48


def residuals_of(model):
    found = residual_variables(model)
    return [copy for each in found for copy in local_copies(each.variable)]


def test_what_is_left_out_goes_into_the_next_step():
    """SGD on gradients by the mean: a residual moves the weights as a gradient of one rank."""
    replicas = strategy(1, reductions=[(".*", "mean")])
    weights = []
    for value in (0.0, 0.5):
        model = compiled_under(
            replicas, lambda: keras.optimizers.SGD(0.1), "gradient", settings=deadline()
        )
        model.optimizer.build(model.trainable_variables)
        for residual in residuals_of(model):
            residual.assign(tf.fill(residual.shape, value * (world().rank + 1)))
        x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
        model.fit(x, y, batch_size=len(x), verbose=0)
        weights.append(model.get_weights())
        assert not any(np.any(residual.numpy()) for residual in residuals_of(model))
    size = world().size
    moved = 0.1 * 0.5 * (size + 1) / 2 if size > 1 else 0.0
    for plain, with_residual in zip(*weights):
        np.testing.assert_allclose(plain - with_residual, moved, rtol=0, atol=1e-6)


class LeaveOut(keras.callbacks.Callback):
    """Leaves something out of the second step, each rank something else."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            for number, residual in enumerate(residuals_of(self.model)):
                residual.assign(tf.fill(residual.shape, 0.01 * (number + world().rank + 1)))


@pytest.mark.long
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_a_training_that_is_resumed_has_what_was_left_out(mode):
    def begin():
        return begun(1, momentum, mode=mode, **deadline())

    straight, data = begin()
    fit(straight, data, LeaveOut(), epochs=1)
    folder = shared_path("left out")
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, LeaveOut(), backup(folder, save_freq=2), Interrupt(2), epochs=1)
    barrier()
    resumed, data = begin()
    fit(resumed, data, backup(folder), epochs=1)
    check_same(resumed, straight)


@pytest.mark.long
def test_own_loops_leave_out_too():
    replicas = strategy(1)
    model = compiled_under(replicas, momentum, "gradient", settings=deadline())
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(batch)
    step = own_step(replicas, model, model.optimizer)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    for each in replicas.experimental_distribute_dataset(data):
        step(each)
    assert_equal_on_ranks(model.trainable_variables)


def test_a_saved_model_is_loaded(tmp_path):
    replicas = strategy(1)
    model = compiled_under(replicas, momentum, "gradient", settings=deadline(3, 0.5))
    x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
    model.fit(x, y, batch_size=len(x), verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    with replicas.scope():
        loaded = keras.models.load_model(path)
    assert loaded.optimizer._adasum.exchange.sync == tf_adasum.sync.Deadline(3, 0.5)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    loaded.fit(x, y, batch_size=len(x), verbose=0)
    assert_equal_on_ranks(loaded.trainable_variables)


@pytest.mark.long
@local_replicas
def test_micro_batches(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    settings = {**deadline(), "accumulate": 2}
    model = compiled_under(replicas, momentum, "delta", settings=settings)
    recipe = Recipe(
        small_model, momentum, "delta", number, num_local, accumulate=2, accumulate_by="adasum"
    )
    check_fit(model, recipe)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"milliseconds": -1}, ValueError, "milliseconds to be a number from 0 to 1e+09"),
        ({"milliseconds": float("nan")}, ValueError, "milliseconds to be a number"),
        ({"milliseconds": "50"}, TypeError, "milliseconds to be a number"),
        ({"max_left_out": 1.1}, ValueError, "max_left_out to be a number from 0 to 1"),
        ({"max_left_out": True}, TypeError, "max_left_out to be a number from 0 to 1"),
    ],
)
def test_settings_are_checked(settings, error, said):
    with pytest.raises(error, match=re.escape(said)):
        tf_adasum.sync.Deadline(**settings)


def test_other_reductions_are_refused():
    replicas = strategy(1, reductions=[("bias", "max")])
    model = compiled_under(replicas, momentum, "gradient", settings=deadline())
    x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
    if world().size == 1:
        model.fit(x, y, batch_size=len(x), verbose=0)
        return
    with pytest.raises(ValueError, match=r"to which a part that is left out is zero"):
        model.fit(x, y, batch_size=len(x), verbose=0)


class Subclass(keras.Model):
    """Its variables have no paths for TensorFlow."""

    def __init__(self):
        super().__init__(name="net")
        self.dense = keras.layers.Dense(1, name="dense", kernel_initializer="ones", use_bias=False)

    def call(self, x):
        return self.dense(x)


@pytest.mark.parametrize("settings", [{}, deadline()])
def test_rules_go_by_keras_paths(settings):
    """Of equal gradients Adasum makes their mean, of orthogonal ones their sum."""
    replicas = strategy(1, reductions=[("^net/dense/", "mean")])
    with replicas.scope():
        model = Subclass()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(1.0), "gradient", **settings), "mae")
    size = world().size
    model.fit(np.eye(size, dtype=np.float32), -np.ones((size, 1)), batch_size=size, verbose=0)
    np.testing.assert_allclose(model.dense.kernel, np.full((size, 1), 1 - 1 / size), rtol=1e-6)
