"""A training that was interrupted and goes on ends with the bits of one that was not."""

from __future__ import annotations

import functools
import itertools
import os
import signal
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.callbacks import save_requests
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.own_variables import state_variables
from tf_adasum.distribute.variables import local_copies

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

    def __init__(self, x, y, size):
        super().__init__()
        self._data, self._size, self._epoch = (x, y), size, 0

    @property
    def num_batches(self):
        return STEPS

    def __getitem__(self, index):
        rows = slice(index * self._size, (index + 1) * self._size)
        x, y = (values[rows].copy() for values in self._data)
        return x + 0.01 * self._epoch, y

    def on_epoch_end(self):
        self._epoch += 1


def data_of(kind, batch):
    x, y = examples(STEPS * batch)
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": batch}
    if kind == "PyDataset":
        return {"x": Batches(x, y, batch)}
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    if kind == "dataset":
        return {"x": dataset.batch(batch)}
    return {"x": dataset.repeat().batch(batch), "steps_per_epoch": STEPS}  # endless


def begun(num_local, make_optimizer, layers=(), kind="arrays", **settings):
    """What a program does from its start to `fit`: the model, and the data."""
    keras.utils.set_random_seed(7)
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model(*[layer() for layer in layers])
        optimizer = make_optimizer()
        optimizer = tf_adasum.wrap(optimizer, **settings) if settings else optimizer
        model.compile(optimizer, loss="mse", metrics=["mae"])
    return model, data_of(kind, PER_REPLICA * replicas.num_replicas_in_sync)


def fit(model, data, *callbacks, epochs=EPOCHS):
    return model.fit(**data, epochs=epochs, verbose=0, callbacks=list(callbacks))


def values_of(model):
    """All that counts, of every local replica."""
    found = state_variables(model)
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


def said(caplog):
    lines = [r.getMessage() for r in caplog.records if r.name == "tf_adasum"]
    return [line.removeprefix("fit begins: ") for line in lines if line.startswith("fit begins")]


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
        interrupt(folder, end - last, begin, save_freq=end - last)
    resumed, data = begin()
    rest = fit(resumed, data, backup(folder))
    assert rest.epoch == list(range(ends[-1] // STEPS, EPOCHS))
    for name, logged in rest.history.items():
        assert logged == history.history[name][ends[-1] // STEPS :], name
    check_same(resumed, straight)
    assert not os.path.exists(folder)
    assert resumed._initial_epoch is None  # the next fit is one of its own


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("make_optimizer", [adam, momentum])
def test_two_halves_are_the_whole(make_optimizer, mode, num_local):
    """Once in the midst of an epoch, once at an epoch's end."""
    kind = "dataset" if mode == "delta" else "arrays"
    check_resumes((2, 2 * STEPS), num_local, make_optimizer, mode=mode, kind=kind)


def mixed(make_optimizer):
    return lambda: keras.optimizers.LossScaleOptimizer(make_optimizer(), initial_scale=1024.0)


random_layers = (functools.partial(keras.layers.Dropout, 0.3), keras.layers.BatchNormalization)
average = functools.partial(adam, use_ema=True, ema_overwrite_frequency=3)
native = functools.partial(adam, gradient_accumulation_steps=4)


@pytest.mark.parametrize(
    ("make_optimizer", "layers", "kind", "settings"),
    [
        (adam, random_layers, "PyDataset", {"accumulate": 3}),
        (momentum, random_layers, "endless", {"steps_per_sync": 4}),
        (average, (), "arrays", {"mode": "delta"}),
        (mixed(native), (), "dataset", {"mode": "gradient"}),
        (adam, random_layers, "arrays", {}),
    ],
    ids=["accumulate", "local steps", "average", "loss scale", "not wrapped"],
)
def test_all_that_has_a_state(make_optimizer, layers, kind, settings):
    """In the midst of a step of three batches, of a round of four, of Keras' four."""
    check_resumes((STEPS + 2,), LOCAL[-1], make_optimizer, layers, kind, **settings)


def unseeded():
    """Draws from the generator that Keras has for all that has no seed."""
    return keras.layers.Lambda(lambda x: keras.random.dropout(x, 0.3))


def test_numbers_without_a_seed_go_on():
    check_resumes((STEPS + 2,), 1, momentum, (unseeded,), mode="gradient")


class LookAtSlots(keras.callbacks.Callback):
    """Keeps a row for each local replica of each momentum, of the begin and of the end."""

    def on_train_begin(self, logs=None):
        self.first = None

    def on_train_batch_begin(self, batch, logs=None):
        self.first = self.first or self._rows()

    def on_epoch_end(self, epoch, logs=None):
        self.last = self._rows()

    def _rows(self):
        own = [each for each in state_variables(self.model) if "momentum" in each.path]
        return [np.stack([copy.numpy() for copy in local_copies(each.variable)]) for each in own]


def test_keras_own_backup_gives_all_replicas_the_slots_of_one():
    """In delta mode, where each had its own: those of rank 0's first replica."""
    folder = shared_path("backup")
    looks = LookAtSlots(), LookAtSlots()
    for epochs, look in enumerate(looks, start=1):
        model, data = begun(LOCAL[-1], momentum, mode="delta")
        stock = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
        assert fit(model, data, stock, look, epochs=epochs).epoch == [epochs - 1]
        barrier()
    for own, given in zip(looks[0].last, looks[1].first, strict=True):
        saved, restored = everywhere(own), everywhere(given)  # by rank and local replica
        assert not (saved == saved[0, 0]).all() or saved.shape[:2] == (1, 1)
        np.testing.assert_array_equal(restored, np.broadcast_to(saved[0, 0], saved.shape))


class AskOneRank(keras.callbacks.Callback):
    """Asks the last rank by a signal, in the midst of a batch, and notes where this rank saves."""

    stops_nothing = True

    def __init__(self, backup, number, after):
        super().__init__()
        self._backup, self._number, self._after = backup, number, after
        self.batches, self.saves = 0, []
        save = backup._save
        backup._save = lambda *place: (self.saves.append((self.batches, *place)), save(*place))

    def on_train_batch_begin(self, batch, logs=None):
        self.batches += 1
        if self.batches == self._after and world().rank == world().size - 1:
            os.kill(os.getpid(), self._number)
            while not self._backup._requests._mine:  # Python hears it between two operations
                time.sleep(0.001)


def _asking(folder, asked, after):
    (number,) = [key for key, value in save_requests.heard_signals().items() if value == asked]
    callback = backup(folder, save_freq=1000)
    return callback, AskOneRank(callback, number, after), number


def test_one_rank_that_is_asked_lets_all_save_after_the_same_batch(monkeypatch):
    """The first time they go on, the second time, after an epoch's last batch, they end."""
    monkeypatch.setattr(save_requests, "_SECONDS_BETWEEN", 0.0)
    straight, data = begun(LOCAL[-1], adam)
    fit(straight, data)
    folder = shared_path("backup")
    first, data = begun(LOCAL[-1], adam)
    callback, ask, number = _asking(folder, save_requests.Asked.BACK_UP, 2)
    with pytest.raises(Interruption):
        fit(first, data, ask, callback, Interrupt(4))
    barrier()
    assert signal.getsignal(number) == signal.SIG_DFL
    assert everywhere(np.array(ask.saves)).tolist() == [[[2, 0, 2]]] * world().size
    second, data = begun(LOCAL[-1], adam)
    callback, ask, number = _asking(folder, save_requests.Asked.BACK_UP_AND_END, 2 * STEPS - 2)
    with pytest.raises(SystemExit) as ended:
        fit(second, data, ask, callback)
    assert ended.value.code == 143
    barrier()
    assert everywhere(np.array(ask.saves)).tolist() == [[[2 * STEPS - 2, 2, 0]]] * world().size
    resumed, data = begun(LOCAL[-1], adam)
    assert fit(resumed, data, backup(folder)).epoch == [2, 3]
    check_same(resumed, straight)


def test_ranks_ask_each_other_once_a_second(monkeypatch):
    """Batches take 1 ms, then half a second; rank 0's clock counts."""
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0] * (world().rank + 1))
    monkeypatch.setattr(save_requests, "time", clock)
    requests = save_requests.SaveRequests(world())
    asked, ask = [], requests._ask
    requests._ask = lambda: (asked.append(batch), ask())[1]
    for batch in range(1, 132):
        now[0] += 0.001 if batch < 64 else 0.5
        assert requests.after(1) == save_requests.Asked.NOTHING
    assert asked == [1, 3, 7, 15, 31, 63, 127, 129, 131]
