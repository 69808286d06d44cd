"""A program that is started again behind a `fit` that is over, or that ended early."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.replicas import barrier, shared_path
from tests.training.resumed import (
    STEPS,
    Interrupt,
    Interruption,
    backup,
    begun,
    check_same,
    fit,
    momentum,
)


@pytest.mark.parametrize("kind", ["dataset", "PyDataset"])
def test_a_fit_that_is_over_leaves_its_data_where_it_did(kind):
    """To a second one of the program, with the same object."""
    folder = shared_path("two fits")

    def both(*callbacks, saves=True):
        model, data = begun(1, momentum, kind=kind, mode="gradient")
        first, second = [backup(f"{folder}/{n}", delete_checkpoint=False) for n in (1, 2)]
        fit(model, data, *[first] * saves, epochs=2)
        fit(model, data, *[second] * saves, *callbacks)
        return model

    straight = both(saves=False)
    with pytest.raises(Interruption):
        both(Interrupt(STEPS))
    barrier()
    check_same(both(), straight)


def test_a_fit_that_is_over_reads_nothing():
    """What an endless pipeline gave for many epochs may take hours to read."""
    folder, read = shared_path("over"), []

    def note(number):
        read.append(number)
        return np.float32([number])

    def row(number):
        return tf.ensure_shape(tf.numpy_function(note, [number], tf.float32), [1])

    def run():
        model, data = begun(1, momentum, mode="gradient")
        width = data["x"].shape[1]
        rows = tf.data.Dataset.range(10**6).map(row).map(lambda x: (tf.tile(x, [width]), x))
        data = {"x": rows.batch(model.distribute_strategy.num_replicas_in_sync)}
        read.clear()
        kept = backup(folder, delete_checkpoint=False)
        return fit(model, data | {"steps_per_epoch": 100}, kept, epochs=2).epoch

    assert run() == [0, 1] and len(read) >= 200
    barrier()
    assert run() == [] and len(read) < 100


class StopEarly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.stop_training = True


@pytest.mark.parametrize("kind", ["PyDataset", "PyDataset of workers"])
def test_an_epoch_that_was_broken_off_is_followed_by_the_next_one(kind):
    """The data's epochs are then those of a training that was not broken off."""
    folder = shared_path("broken off")

    def run(*callbacks):
        model, data = begun(1, momentum, kind=kind, mode="gradient")
        return fit(model, data, *callbacks, epochs=3).epoch, data["x"].epoch

    _, want = run()
    assert run(backup(folder, delete_checkpoint=False), StopEarly())[0] == [0]
    barrier()
    assert run(backup(folder, delete_checkpoint=False)) == ([1, 2], want)
