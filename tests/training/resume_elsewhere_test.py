"""A training resumed on other numbers of replicas, saves that fail, and what is refused."""

from __future__ import annotations

import os

import h5py
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
from tf_adasum.collectives.communicator import world
from tf_adasum.collectives.compression import Sign
from tf_adasum.distribute.own_variables import residual_variables, state_variables
from tf_adasum.distribute.variables import local_copies

PER_REPLICA, STEPS = 4, 3


def group_of(size):
    """The first ranks of the world; the others are one each by themselves, and only wait."""
    return world().split(0 if world().rank < size else 1 + world().rank)


def begun(communicator, num_local, width=None, **settings):
    keras.utils.set_random_seed(7)
    with strategy(num_local, communicator=communicator).scope():
        model = small_model(keras.layers.BatchNormalization(), *(width or ()))
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        model.compile(tf_adasum.wrap(optimizer, **settings), loss="mse")
    return model


def fit(model, *callbacks, epochs=1):
    batch = PER_REPLICA * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(STEPS * batch)
    return model.fit(x, y, batch, epochs=epochs, verbose=0, callbacks=list(callbacks))


def backup(folder, **options):
    return tf_adasum.callbacks.BackupAndRestore(folder, delete_checkpoint=False, **options)


def lines(caplog):
    return [r.getMessage() for r in caplog.records if "fit begins: " in r.getMessage()]


class Look(keras.callbacks.Callback):
    """Keeps the values of this rank's replicas as `fit` finds them after BackupAndRestore."""

    def on_epoch_begin(self, epoch, logs=None):
        self.seen = values_of(self.model)
        lost = residual_variables(self.model)
        self.lost = [copy.numpy() for each in lost for copy in local_copies(each.variable)]


def values_of(model):
    """Of each variable, by rows: the local replicas'."""
    return {
        each.path: np.stack([copy.numpy() for copy in local_copies(each.variable)])
        for each in state_variables(model)
    }


# (ranks, local replicas) before and after.
CHANGES = {
    1: [((1, 2), (1, 1))],
    2: [((2, 1), (1, 1)), ((2, 2), (2, 1)), ((1, 1), (2, 2))],
    3: [((2, 1), (3, 1)), ((3, 1), (2, 1))],
}


@pytest.mark.parametrize("compression", [None, Sign(least_elements=0)], ids=["plain", "signs"])
@pytest.mark.parametrize(("before", "after"), CHANGES.get(world().size, []))
def test_another_number_of_replicas_goes_on_with_the_mean(before, after, compression, caplog):
    """Residuals begin anew."""
    folder, means = shared_path("backup"), shared_path("means.npz")
    group, number = group_of(before[0]), before[0] * before[1]
    if world().rank < before[0]:
        saved = begun(group, before[1], compression=compression)
        fit(saved, backup(folder))
        sums = [rows.sum(axis=0, dtype=np.float64) for rows in values_of(saved).values()]
        sums = tf_adasum.allreduce([tf.constant(each) for each in sums], "sum", group)
        if world().rank == 0:
            np.savez(means, *[each / number for each in sums])
            np.savez(means.replace("means", "weights"), *saved.get_weights())
    barrier()
    group = group_of(after[0])
    if world().rank < after[0]:
        look = Look()
        resumed = begun(group, after[1], compression=compression)
        assert fit(resumed, backup(folder), look, epochs=2).epoch == [1]
        assert bool(look.lost) == (compression is not None and after != (1, 1))
        assert not any(lost.any() for lost in look.lost)
        wanted = np.load(means)
        for name, rows in zip(wanted, look.seen.values(), strict=True):
            for row in rows:
                np.testing.assert_allclose(row, wanted[name], rtol=1e-6, atol=1e-7)
        trained = [each.path for each in resumed.trainable_variables]
        weights = np.load(means.replace("means", "weights"))
        for name, variable in zip(weights, resumed.weights, strict=True):
            if variable.path in trained:  # equal on all replicas
                for row in look.seen[variable.path]:
                    np.testing.assert_array_equal(row, weights[name], err_msg=variable.path)
        assert all(np.isfinite(weight).all() for weight in resumed.get_weights())
        check_said(lines(caplog), number, folder)
    barrier()


def check_said(said, number, folder):
    if world().rank > 0:
        assert said == []
        return
    assert f"goes on with epoch 1, after 0 of its batches, from {folder}" in said[0]
    assert number == 1 or f"{number} replicas saved values of their own" in said[1]


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL[-1:])
def test_the_mean_of_slots_is_a_file_for_any_number(num_local):
    folder = shared_path("backup")
    model = begun(world(), num_local)
    fit(model, backup(folder, slots="mean"))
    own = values_of(model)
    if world().rank == 0:
        with h5py.File(os.path.join(folder, "training.h5")) as file:
            shapes = [file[f"state/{k}"].shape for k in range(len(file["state"]))]
        assert shapes == [rows.shape[1:] for rows in own.values()]
    look = Look()
    fit(begun(world(), num_local), backup(folder), look, epochs=2)
    number = model.distribute_strategy.num_replicas_in_sync
    for rows, read in zip(own.values(), look.seen.values(), strict=True):
        mean = everywhere(rows.sum(axis=0, dtype=np.float64)).sum(axis=0) / number
        for row in read:
            np.testing.assert_allclose(row, mean, rtol=1e-6, atol=1e-7)


@pytest.mark.long
def test_a_save_that_fails_leaves_the_file_and_all_ranks_say_so():
    folder = shared_path("backup")
    path = os.path.join(folder, "training.h5")
    model = begun(world(), 1)
    fit(model, backup(folder))
    if world().rank == 0:
        before = open(path, "rb").read()
        os.mkdir(f"{path}.partial")  # in the way of what is to be written
    barrier()
    with pytest.raises(OSError, match=f"rank {world().rank}: Expected to write .* left as it was"):
        fit(begun(world(), 1), backup(folder), epochs=2)
    if world().rank == 0:
        os.rmdir(f"{path}.partial")
        assert open(path, "rb").read() == before
    barrier()
    assert fit(begun(world(), 1), backup(folder), epochs=2).epoch == [1]
    assert world().rank > 0 or os.listdir(folder) == ["training.h5"]


class OwnModel(keras.Model):
    """`build` does not build its layer."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, name="inner")

    def build(self, shape):
        self.built = True

    def call(self, x):
        return self.dense(x)


def test_a_model_that_counts_as_built_without_its_weights_is_told_to_be_called():
    folder = f"{shared_path('backup')}/{world().rank}"
    x, y = examples(8)
    for is_called in (True, False):
        model = OwnModel()
        model.compile("sgd", "mse")
        model(x) if is_called else model.build(x.shape)
        if is_called:
            model.fit(x, y, verbose=0, callbacks=[backup(folder)])
    with pytest.raises(
        ValueError, match=r"Call the model on a batch first, as 'inner' is not built"
    ):
        model.fit(x, y, verbose=0, callbacks=[backup(folder)])


@pytest.mark.long
def test_a_generator_begins_anew_and_rank_0_says_so(caplog):
    """The epoch goes on with its next batch, by number."""

    def batches():
        x, y = examples(PER_REPLICA)
        while True:
            yield x.copy(), y.copy()

    def stop(batch, logs):
        if batch == 1:
            raise InterruptedError

    folder = shared_path("backup")
    options = {"steps_per_epoch": STEPS, "verbose": 0}
    stopping = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
    with pytest.raises(InterruptedError):
        begun(world(), 1).fit(
            batches(), **options, callbacks=[backup(folder, save_freq=2), stopping]
        )
    model = begun(world(), 1)
    history = model.fit(batches(), **options, callbacks=[backup(folder)])
    assert history.epoch == [0]
    assert int(model.optimizer.iterations.numpy()) == STEPS
    said = lines(caplog)
    if world().rank == 0:
        assert "goes on with epoch 0, after 2 of its batches" in said[0]
        assert said[-1].endswith("they come from a generator, which begins anew.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backup_dir": ""}, r"backup_dir to be a folder\. Received: ''"),
        ({"save_freq": 0}, r"save_freq to be 'epoch' or an int from 1\. Received: 0"),
        ({"slots": "sum"}, r"slots to be 'per_rank' or 'mean'\. Received: 'sum'"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_adasum.callbacks.BackupAndRestore(**{"backup_dir": "/tmp/b", **arguments})
