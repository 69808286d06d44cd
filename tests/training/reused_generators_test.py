"""A generator that is given to several calls, each of which tf.data reads ahead of."""

from __future__ import annotations

import threading
import time

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import LOCAL, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.data import reused_generators

LIMIT_SECONDS = 60
local_replicas = pytest.mark.parametrize("num_local", LOCAL)


def _numbered(rows: int, seconds: float):
    """Batches of their own number, each after so long."""
    number = 0
    while True:
        time.sleep(seconds)
        yield np.full((rows, 1), number, np.float32), np.zeros((rows, 1), np.float32)
        number += 1


def _model(replicas) -> keras.Model:
    """Its loss is the mean of what it is given."""
    with replicas.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.0)), loss=lambda y, p: p)
        model.set_weights([np.ones((1, 1), np.float32)])
    return model


@local_replicas
def test_calls_wait_for_what_still_reads_a_slow_one(num_local):
    replicas = strategy(num_local)
    model = _model(replicas)
    batches = _numbered(replicas.num_replicas_in_sync, 0.03)
    numbers = []
    for _ in range(3):
        fitted = model.fit(batches, steps_per_epoch=2, verbose=0).history["loss"]
        numbers += [*fitted, model.evaluate(batches, steps=1, verbose=0)]
    # The mean of two batches in a row, and the number of one: none is read again.
    assert [2 * number % 2 for number in numbers] == [1, 0] * 3
    assert numbers == sorted(set(numbers))


@local_replicas
def test_ranks_go_on_at_one_batch(num_local):
    """Those that are quick, or slow to end a call, read further ahead than others."""
    replicas = strategy(num_local)
    model = _model(replicas)
    batches = _numbered(replicas.num_replicas_in_sync, 0.004 * world().rank)
    numbers = [float(model.evaluate(batches, steps=1, verbose=0)) for _ in range(6)]
    # The mean over replicas that were given unlike batches, 3 and 4 say, would be 3.5.
    assert numbers == sorted({round(number) for number in numbers})


@local_replicas
def test_validations_go_on_at_one_batch(num_local):
    """Each begins with what Keras peeked at to see what batches are, as in plain Keras."""
    replicas = strategy(num_local)
    model = _model(replicas)
    rows = replicas.num_replicas_in_sync
    validation = {"validation_data": _numbered(rows, 0.01 * (1 + world().rank))}
    x = np.ones((2 * rows, 1), np.float32)
    options = {"batch_size": rows, "epochs": 4, "validation_steps": 3, "verbose": 0}
    history = model.fit(x, x, **validation, **options).history["val_loss"]
    thirds = [3 * mean - (0 + 1) for mean in history]
    assert thirds == pytest.approx(sorted({round(third) for third in thirds}))


@local_replicas
def test_one_that_an_earlier_call_waits_for_is_refused(num_local, monkeypatch):
    monkeypatch.setattr(reused_generators, "_MOST_SECONDS", 0.2)
    is_asked, may_go_on = threading.Event(), threading.Event()
    replicas = strategy(num_local)
    model = _model(replicas)
    rows = np.ones((replicas.num_replicas_in_sync, 1), np.float32)

    def stream():
        for _ in range(3):
            yield rows, rows
        is_asked.set()
        may_go_on.wait(LIMIT_SECONDS)

    def until_asked(epoch, logs):
        assert is_asked.wait(LIMIT_SECONDS)  # by tf.data, ahead of the next step

    batches = stream()
    stays = keras.callbacks.LambdaCallback(on_epoch_end=until_asked)
    model.fit(batches, steps_per_epoch=3, verbose=0, callbacks=[stays])
    with pytest.raises(RuntimeError, match=r"next batch has not come within 0\.2 s"):
        model.evaluate(batches, steps=1, verbose=0)
    assert model.evaluate(_numbered(len(rows), 0), steps=1, verbose=0) == 0
    may_go_on.set()


def test_one_that_ends_says_what_keras_does():
    model = _model(strategy(1))
    rows = world().size
    batches = ((np.full((rows, 1), n, np.float32), np.zeros((rows, 1))) for n in range(1))
    assert model.evaluate(batches, verbose=0) == 0
    with pytest.raises((ValueError, IndexError)):  # the one by Keras 3.15, the other by 3.12
        model.evaluate(batches, verbose=0)
