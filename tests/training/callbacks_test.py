"""Stock callbacks on all ranks, with one folder for all: one file each, complete, of rank 0."""

from __future__ import annotations

import contextlib
import csv
import os
import tempfile

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world


def compiled(num_local, mode="delta", momentum=0.9, use_ema=False):
    with strategy(num_local).scope():
        model = small_model(keras.layers.BatchNormalization())
        optimizer = keras.optimizers.SGD(0.01, momentum=momentum, use_ema=use_ema)
        model.compile(tf_adasum.wrap(optimizer, mode=mode), loss="mse", metrics=["mae"])
    return model


def data_of(model, batches=2):
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(batches * batch)
    return {"x": x, "y": y, "batch_size": batch, "shuffle": False, "verbose": 0}


def all_stock_callbacks(folder, model, kept):
    """Every callback of Keras that may change the training or write, all into one folder."""
    path = os.path.join
    kinds = keras.callbacks

    def save(epoch, logs):
        kept[:] = [variable.value.values[0].numpy() for variable in model.weights]
        model.save(path(folder, "lambda.keras"))

    listed = [
        kinds.SwapEMAWeights(),
        kinds.ModelCheckpoint(path(folder, "best", "m.keras"), "loss", save_best_only=True),
        kinds.ModelCheckpoint(path(folder, "e{epoch}b{batch}.weights.h5"), save_freq=3,
                              save_weights_only=True, monitor="loss"),
        kinds.BackupAndRestore(path(folder, "backup"), delete_checkpoint=False),
        kinds.CSVLogger(path(folder, "log.csv")),
        kinds.EarlyStopping("loss", patience=9, restore_best_weights=True),
        kinds.ReduceLROnPlateau("loss", patience=1, min_delta=9.0, factor=0.5),
        kinds.TerminateOnNaN(),
        kinds.LambdaCallback(on_epoch_end=save),
        kinds.TensorBoard(path(folder, "board"), histogram_freq=1),
    ]  # fmt: skip
    return listed


def files_in(folder):
    return sorted(
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
        if "tfevents" not in name
    )


@pytest.mark.parametrize(("in_scope", "num_local"), [(False, LOCAL[-1]), (True, 1)])
def test_stock_callbacks_write_one_file_of_rank_0(in_scope, num_local, monkeypatch):
    folder = os.path.dirname(shared_path("a folder of all ranks"))
    own = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", own)
    model = compiled(num_local, use_ema=True)
    kept = []
    callbacks = all_stock_callbacks(folder, model, kept)
    data = data_of(model)
    with model.distribute_strategy.scope() if in_scope else contextlib.nullcontext():
        history = model.fit(
            **data, epochs=3, callbacks=callbacks, validation_data=(data["x"], data["y"])
        )
    assert files_in(own) == []  # the others write nothing anywhere else
    barrier()
    wanted = ["backup/latest.weights.h5", "backup/training_metadata.json", "best/m.keras",
              "e2b1.weights.h5", "e3b2.weights.h5", "lambda.keras", "log.csv"]  # fmt: skip
    assert files_in(folder) == wanted
    assert len(os.listdir(os.path.join(folder, "board", "train"))) == 1
    rates = history.history["learning_rate"]
    assert rates == sorted(rates, reverse=True) and rates[-1] < rates[0]
    assert everywhere(rates).tolist() == [rates] * world().size
    check_log(os.path.join(folder, "log.csv"), history.history)
    assert_equal_on_ranks(model.trainable_variables)
    keras.models.load_model(os.path.join(folder, "best", "m.keras"))
    loaded = keras.models.load_model(os.path.join(folder, "lambda.keras"))
    for got, mine in zip(loaded.weights, kept):  # with the moving statistics of rank 0
        np.testing.assert_array_equal(got.numpy(), everywhere(mine)[0], err_msg=got.path)


def check_log(path, history):
    with open(path) as log:
        rows = list(csv.DictReader(log))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    np.testing.assert_allclose([float(row["loss"]) for row in rows], history["loss"], rtol=1e-6)


class Interruption(Exception):
    """What ends a training in its midst."""


def interrupt(epoch, logs):
    if epoch == 2:
        raise Interruption


@pytest.mark.long
@pytest.mark.parametrize(("mode", "num_local"), [("delta", LOCAL[-1]), ("gradient", 1)])
def test_all_ranks_resume_from_the_backup_of_rank_0(mode, num_local, caplog):
    """All ranks give one folder; what counts is rank 0's, and the others don't even look."""
    folder = shared_path("backup")
    momentum = 0.9 if mode == "gradient" else 0.0  # in delta mode it is a replica's own
    straight, broken, continued = (compiled(num_local, mode, momentum) for _ in range(3))
    broken.set_weights(straight.get_weights())
    data = data_of(straight)
    end = keras.callbacks.LambdaCallback(on_epoch_begin=interrupt)
    with pytest.raises(Interruption):
        broken.fit(**data, epochs=4, callbacks=[keras.callbacks.BackupAndRestore(folder), end])
    barrier()
    if world().rank > 0:  # another file system than rank 0's, say, with an old backup in it
        folder = os.path.join(tempfile.mkdtemp(), "backup")
        straight.save_weights(folder + ".weights.h5")
        os.makedirs(folder)
        os.replace(folder + ".weights.h5", os.path.join(folder, "latest.weights.h5"))
    caplog.clear()
    backup = keras.callbacks.BackupAndRestore(folder)
    history = continued.fit(**data, epochs=4, callbacks=[backup])
    said = [r.getMessage() for r in caplog.records if r.name == "tf_adasum"]
    if world().size > 1:
        want = ["fit begins: all ranks begin with epoch 2 and the weights that rank 0 restored."]
        assert said == (want if world().rank == 0 else [])
    assert history.epoch == [2, 3]
    assert int(continued.optimizer.iterations.numpy()) == 8
    assert os.path.exists(folder) == (world().rank > 0)
    straight.fit(**data, epochs=4)
    for got, want in zip(continued.trainable_variables, straight.trainable_variables):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=0, atol=1e-6)
    assert_equal_on_ranks(continued.trainable_variables)
