"""What ends the iterators of `fit` takes its time, and nobody waits for it; nothing is left."""

from __future__ import annotations

import gc
import threading
import weakref

import keras
import pytest

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    barrier,
    endless_examples,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.data import data_position

LIMIT_SECONDS = 60


@pytest.mark.parametrize("num_local", LOCAL)
def test_fit_ends_before_its_iterators(num_local):
    is_training, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def wait():
        if is_training.is_set():  # not what Keras reads before
            may_end.wait(LIMIT_SECONDS)
            has_ended.set()

    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), loss="mse")
    begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: is_training.set())
    data = endless_examples(wait).batch(2 * replicas.num_replicas_in_sync)
    model.fit(data, steps_per_epoch=2, verbose=0, callbacks=[begin])
    assert not has_ended.is_set()
    may_end.set()
    assert has_ended.wait(LIMIT_SECONDS)
    barrier()


class WatchAdapter(keras.callbacks.Callback):
    """Hears when what `fit` made of its data is gone."""

    def on_train_begin(self, logs=None):
        self.is_gone = threading.Event()
        adapter = data_position.of_begun_fit()._adapter
        self.adapter = weakref.ref(adapter, lambda _: self.is_gone.set())


def test_fit_leaves_no_copy_of_the_data():
    """What Keras made of arrays goes with the iterators of `fit`, without a garbage collection.

    Also while the program keeps a callback that knew it.
    """
    with strategy(1).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    x, y = examples(4 * world().size)
    watch, kept = WatchAdapter(), tf_adasum.callbacks.BackupAndRestore(shared_path("backup"))
    gc.disable()
    try:
        model.fit(x, y, batch_size=len(x), verbose=0, callbacks=[watch, kept])
        assert watch.is_gone.wait(LIMIT_SECONDS)
    finally:
        gc.enable()
