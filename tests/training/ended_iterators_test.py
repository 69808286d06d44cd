"""What ends the iterators of `fit` takes its time, and nobody waits for it."""

from __future__ import annotations

import threading

import keras
import pytest

import tf_adasum
from tests.training.replicas import LOCAL, barrier, endless_examples, small_model, strategy

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
