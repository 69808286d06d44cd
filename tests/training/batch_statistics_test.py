"""BatchNormalization's moving statistics: a replica's own in a step, the mean of all after it."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import LOCAL, everywhere, examples, shared_path, small_model, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.variables import local_copies, native_variable

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


def compiled(num_local, synchronized=False):
    with strategy(num_local).scope():
        model = small_model(keras.layers.BatchNormalization(synchronized=synchronized))
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    return model


def data_of(model, steps=3):
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(steps * batch)
    # Replicas see rows of unlike kinds.
    return {"x": x * np.linspace(1, 3, len(x))[:, np.newaxis], "y": y, "batch_size": batch}


def statistics(model):
    """Of each local replica, one vector."""
    layer = next(each for each in model.layers if isinstance(each, keras.layers.BatchNormalization))
    moving = [layer.moving_mean, layer.moving_variance]
    of_variables = [local_copies(native_variable(each)) for each in moving]
    return [np.concatenate([copy.numpy() for copy in copies]) for copies in zip(*of_variables)]


class Before(keras.callbacks.Callback):
    """Keeps the statistics as they are behind the last batch."""

    def on_train_batch_end(self, batch, logs=None):
        self.seen = statistics(self.model)


@local_replicas
def test_they_are_the_mean_when_an_epoch_ends(num_local):
    model, before = compiled(num_local), Before()
    model.fit(**data_of(model), shuffle=False, verbose=0, callbacks=[before])
    of_all = np.concatenate(everywhere(np.stack(before.seen)))
    number = model.distribute_strategy.num_replicas_in_sync
    assert len(np.unique(of_all, axis=0)) == number
    mean = np.mean(of_all, axis=0, dtype=np.float64)
    for own in statistics(model):
        np.testing.assert_allclose(own, mean, rtol=1e-6)
        np.testing.assert_array_equal(everywhere(own), [own] * world().size)


@local_replicas
@pytest.mark.parametrize("synchronized", [False, True])
def test_what_is_saved_is_what_was_evaluated(synchronized, num_local):
    model = compiled(num_local, synchronized)
    data = data_of(model)
    path = shared_path(f"best of {num_local} {synchronized}.keras")
    best = keras.callbacks.ModelCheckpoint(path, save_best_only=True)
    validation = (data["x"], data["y"])
    logs = model.fit(**data, validation_data=validation, epochs=2, verbose=0, callbacks=[best])
    losses = logs.history["val_loss"]
    predicted = [
        model.predict(data["x"], batch_size=size, verbose=0) for size in (4, len(data["x"]))
    ]
    np.testing.assert_allclose(*predicted, rtol=0, atol=1e-6)
    with tf_adasum.AdasumStrategy().scope():
        saved = keras.models.load_model(path)
    loss = saved.evaluate(*validation, batch_size=len(data["x"]), verbose=0)
    np.testing.assert_allclose(loss, min(losses), rtol=1e-5)


@local_replicas
def test_a_frozen_layer_keeps_its_own(num_local):
    model = compiled(num_local)
    for layer in model.layers:
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    before = statistics(model)
    model.fit(**data_of(model), verbose=0)
    np.testing.assert_array_equal(statistics(model), before)


class Evaluates(keras.callbacks.Callback):
    """In the midst of an epoch, on all ranks."""

    def __init__(self, x, y):
        super().__init__()
        self._data = {"x": x, "y": y}

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.evaluate(**self._data, batch_size=len(self._data["x"]), verbose=0)


def test_they_meet_again_behind_an_evaluation_in_an_epoch():
    model = compiled(1)
    data = data_of(model)
    model.fit(**data, verbose=0, callbacks=[Evaluates(data["x"], data["y"])])
    for own in statistics(model):
        np.testing.assert_array_equal(everywhere(own), [own] * world().size)
