"""Each stock callback, the same on all ranks, with one folder for all."""

from __future__ import annotations

import csv
import functools
import os

import keras
import numpy as np

import tf_adasum
from tests.keras.registry import row
from tests.keras.run import ADASUM, BATCH, momentum
from tests.training.replicas import barrier

callbacks = functools.partial(row, "Callbacks")
kinds = keras.callbacks


def trained(run, *listed, optimizer=momentum, epochs=3):
    """A model that was fitted with these callbacks, and the history."""
    model = run.compiled(make_optimizer=optimizer)
    history = run.fit(model, *run.examples(), epochs=epochs, callbacks=list(listed))
    return model, history


@callbacks("ModelCheckpoint", full=True)
def model_checkpoint(run):
    folder = run.folder()
    best = kinds.ModelCheckpoint(os.path.join(folder, "best.keras"), "loss", save_best_only=True)
    each = os.path.join(folder, "{epoch}.weights.h5")
    model, history = trained(run, best, kinds.ModelCheckpoint(each, save_weights_only=True))
    names = sorted(os.listdir(folder))
    loaded = keras.models.load_model(os.path.join(folder, "best.keras"), compile=False)
    return run.result(model, history, names=names, saved=loaded.get_weights())


class Interruption(Exception):
    """What ends a training in its midst."""


def interrupt(epoch, logs):
    if epoch == 2:
        raise Interruption


@callbacks("BackupAndRestore", full=True)
def backup(run):
    folder = run.folder()
    model = run.compiled(make_optimizer=lambda: keras.optimizers.SGD(0.05))
    x, y = run.examples()
    end = kinds.LambdaCallback(on_epoch_begin=interrupt)
    try:
        run.fit(model, x, y, epochs=4, callbacks=[kinds.BackupAndRestore(folder), end])
    except Interruption:
        barrier()
    model = run.compiled(make_optimizer=lambda: keras.optimizers.SGD(0.05))
    history = run.fit(model, x, y, epochs=4, callbacks=[kinds.BackupAndRestore(folder)])
    assert len(history["loss"]) == 2
    return run.result(model, history)


@callbacks("tf_adasum.callbacks.BackupAndRestore", note="one device: no interruption", full=True)
def own_backup(run):
    x, y = run.examples()
    model = run.compiled()
    if not run.is_plain:
        kind = functools.partial(tf_adasum.callbacks.BackupAndRestore, run.folder(), save_freq=2)
        end = kinds.LambdaCallback(on_epoch_begin=interrupt)
        try:
            run.fit(model, x, y, epochs=4, callbacks=[end, kind()])
        except Interruption:
            barrier()
        model = run.compiled()
    history = run.fit(model, x, y, epochs=4, callbacks=[] if run.is_plain else [kind()])
    losses = history["loss"][-2:]
    return run.result(model, {"loss": losses})


@callbacks("tf_adasum.callbacks.OrthogonalityLogger", note="one device: without it", full=True)
def orthogonality(run):
    logger = tf_adasum.callbacks.OrthogonalityLogger(per_variable=True)
    model, history = trained(run, *([] if run.is_plain else [logger]))
    kept = {name: values for name, values in history.items() if "orthogonality" not in name}
    if run.kind == ADASUM:
        assert all(1 / run.number - 1e-6 < each < 2 for each in history["orthogonality"])
        assert len(history) == len(kept) + 1 + len(model.trainable_variables)
    return run.result(model, kept)


@callbacks("tf_adasum.callbacks.LearningRateWarmup", full=True)
def warmup(run):
    warmup = tf_adasum.callbacks.LearningRateWarmup(0.05, num_steps=5)
    model, history = trained(run, warmup)
    return run.result(model, history)


@callbacks("CSVLogger", full=True)
def csv_logger(run):
    path = os.path.join(run.folder(), "log.csv")
    model, history = trained(run, kinds.CSVLogger(path))
    with open(path) as log:
        rows = [[float(row["epoch"]), float(row["loss"])] for row in csv.DictReader(log)]
    return run.result(model, history, rows=rows)


@callbacks("TensorBoard", full=True)
def tensor_board(run):
    folder = run.folder()
    model, history = trained(run, kinds.TensorBoard(folder, histogram_freq=1))
    return run.result(model, history, files=len(os.listdir(os.path.join(folder, "train"))))


@callbacks("EarlyStopping, restore_best_weights")
def early_stopping(run):
    stop = kinds.EarlyStopping("loss", patience=1, min_delta=9.0, restore_best_weights=True)
    model, history = trained(run, stop, epochs=4)
    assert len(history["loss"]) == 2
    return run.result(model, history)


@callbacks("ReduceLROnPlateau")
def plateau(run):
    less = kinds.ReduceLROnPlateau("loss", patience=1, min_delta=9.0, factor=0.5)
    model, history = trained(run, less)
    return run.result(model, history)


@callbacks("LearningRateScheduler", full=True)
def scheduler(run):
    model, history = trained(run, kinds.LearningRateScheduler(lambda epoch, rate: rate * 0.5))
    return run.result(model, history)


@callbacks("TerminateOnNaN, NaN on one replica", note="all stop after the same batch")
def terminate(run):
    model = run.compiled()
    x, y = run.examples(4)
    y[2 * BATCH] = np.nan
    seen = []
    count = kinds.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    stopped = run.fit(model, x, y, callbacks=[kinds.TerminateOnNaN(), count])
    return {"seen": seen, "epochs": len(stopped["loss"])}


@callbacks("SwapEMAWeights")
def swapped(run):
    model = run.compiled(make_optimizer=lambda: momentum(use_ema=True, ema_momentum=0.8))
    x, y = run.examples()
    options = {"validation_data": (x, y), "validation_batch_size": BATCH}
    swap = kinds.SwapEMAWeights(swap_on_epoch=True)
    return run.result(model, run.fit(model, x, y, callbacks=[swap], **options))


@callbacks("LambdaCallback that saves", full=True)
def saving_lambda(run):
    path = os.path.join(run.folder(), "model.weights.h5")
    held = []
    save = kinds.LambdaCallback(
        on_epoch_end=lambda epoch, logs: held[0].save_weights(path),
        on_train_begin=lambda logs: held.append(save.model),
    )
    model, history = trained(run, save)
    copy = run.compiled()
    copy.load_weights(path)
    return run.result(model, history, saved=copy.get_weights())
