"""Trainings that are interrupted and gone on with: what tests of BackupAndRestore share."""

from __future__ import annotations

import functools
import itertools
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.gan import Gan
from tests.training.replicas import (
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.own_variables import residual_variables, state_variables
from tf_adasum.distribute.variables import local_copies
from tf_adasum.keras_hooks.core import lent_generator

EPOCHS, STEPS, PER_REPLICA = 4, 5, 4
adam = functools.partial(keras.optimizers.Adam, 0.01)
momentum = functools.partial(keras.optimizers.SGD, 0.01, momentum=0.9)


class Interruption(Exception):
    """What ends a training in its midst."""


class Interrupt(keras.callbacks.Callback):
    """Ends `fit` after so many batches; after an epoch's last one with the next epoch's begin."""

    def __init__(self, after: int):
        super().__init__()
        self._after = after
        self._seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self._seen += 1
        if self._seen == self._after and batch + 1 < STEPS:
            raise Interruption

    def on_epoch_begin(self, epoch, logs=None):
        if self._seen == self._after:
            raise Interruption


class Batches(keras.utils.PyDataset):
    """Batches that are another one's in the next epoch."""

    def __init__(self, x, y, size, workers=1):
        super().__init__(workers)
        self._data, self._size, self.epoch = (x, y), size, 0

    @property
    def num_batches(self):
        return STEPS

    def __getitem__(self, index):
        rows = slice(index * self._size, (index + 1) * self._size)
        x, y = (values[rows].copy() for values in self._data)
        return x + 0.01 * self.epoch, y

    def on_epoch_end(self):
        self.epoch += 1


def data_of(kind, batch):
    x, y = examples(STEPS * batch)
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": batch}
    if kind == "PyDataset":
        return {"x": Batches(x, y, batch)}
    if kind == "PyDataset of workers":
        return {"x": Batches(x, y, batch, workers=2)}
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    if kind == "dataset":
        return {"x": dataset.batch(batch)}
    if kind == "unknown":
        return {"x": dataset.filter(lambda *_: True).batch(batch)}
    return {"x": dataset.repeat().batch(batch), "steps_per_epoch": STEPS}  # endless


def begun(num_local, make_optimizer, layers=(), kind="arrays", is_gan=False, **settings):
    """What a program does from its start to `fit`: the model, and the data."""
    lent_generator.set_of_this_thread(None)  # set_random_seed of Keras 3.12 leaves it
    keras.utils.set_random_seed(7)
    replicas = strategy(num_local)

    def optimizer():
        return tf_adasum.wrap(make_optimizer(), **settings) if settings else make_optimizer()

    with replicas.scope():
        if is_gan:
            model = Gan()
            model.compile(optimizer(), optimizer())
        else:
            model = small_model(*[layer() for layer in layers])
            model.compile(optimizer(), loss="mse", metrics=["mae"])
    return model, data_of(kind, PER_REPLICA * replicas.num_replicas_in_sync)


def fit(model, data, *callbacks, epochs=EPOCHS):
    return model.fit(**data, epochs=epochs, verbose=0, callbacks=list(callbacks))


def values_of(model):
    """All that counts, of every local replica."""
    found = state_variables(model) + residual_variables(model)
    return [(each.path, copy.numpy()) for each in found for copy in local_copies(each.variable)]


def backup(folder, **options):
    return tf_adasum.callbacks.BackupAndRestore(folder, **options)


def interrupt(folder, after, begin, **options):
    """Trains until `after` batches of this call of fit, which the last save has seen."""
    options.setdefault("save_freq", after if after % STEPS else "epoch")
    model, data = begin()
    # What a program begins with must not count.
    model.set_weights([np.full_like(weight, 7.0) for weight in model.get_weights()])
    with pytest.raises(Interruption):
        fit(model, data, backup(folder, **options), Interrupt(after))
    barrier()
    return model


def check_same(model, other):
    for (path, got), (_, want) in zip(values_of(model), values_of(other), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=path)


def check_resumes(ends, *begin, **options):
    """Interrupts after batches `ends`, the last in another epoch than those before."""
    begin = functools.partial(begun, *begin, **options)
    straight, data = begin()
    initial = straight.get_weights()
    history = fit(straight, data)
    folder = shared_path("backup")
    if world().rank > 0:
        folder += "/of/another/file/system"
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, backup(folder, save_freq=ends[0]), Interrupt(ends[0]))
    barrier()
    assert not all(map(np.array_equal, first.get_weights(), initial))
    for last, end in itertools.pairwise(ends):
        ended = interrupt(folder, end - last, begin, save_freq=end - last)
        assert ended._initial_epoch is None  # the next fit is one of its own
    resumed, data = begin()
    rest = fit(resumed, data, backup(folder))
    assert rest.epoch == list(range(ends[-1] // STEPS, EPOCHS))
    for name, logged in rest.history.items():
        assert logged == history.history[name][ends[-1] // STEPS :], name
    check_same(resumed, straight)
    assert not os.path.exists(folder)
    assert resumed._initial_epoch is None
