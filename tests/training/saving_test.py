"""One rank saves while the others go on; all ranks load together and continue alike."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world


def compiled(num_local):
    with strategy(num_local).scope():
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.Adam(0.01), mode="gradient")
        model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    return model


@pytest.mark.parametrize("num_local", LOCAL)
def test_rank_0_saves_alone_and_all_load(num_local):
    model = compiled(num_local)
    batch = 4 * num_local * world().size
    x, y = examples(4 * batch)
    model.fit(x[: 2 * batch], y[: 2 * batch], batch_size=batch, shuffle=False, verbose=0)
    path = shared_path("model.keras")
    if world().rank == 0:
        model.save(path)
    barrier()
    with strategy(num_local).scope():
        loaded = keras.models.load_model(path)
    rest = {"x": x[2 * batch :], "y": y[2 * batch :], "batch_size": batch, "shuffle": False}
    for each in (model, loaded):
        each.fit(**rest, verbose=0)
    for straight, continued in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(straight, continued, rtol=0, atol=1e-7)
    assert_equal_on_ranks(loaded.variables)
    assert_equal_on_ranks(loaded.optimizer.variables)


@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_and_checkpoints(num_local):
    model = compiled(num_local)
    x, y = examples(8 * num_local * world().size)
    model.fit(x, y, batch_size=len(x) // 2, verbose=0)
    weights, state = shared_path("model.weights.h5"), shared_path("state")
    if world().rank == 0:
        model.save_weights(weights)
        saved = tf.train.Checkpoint(model=model).write(state)
        assert saved == state
    barrier()
    for restore in (
        lambda fresh: fresh.load_weights(weights),
        lambda fresh: tf.train.Checkpoint(model=fresh).read(state),
    ):
        fresh = compiled(num_local)
        restore(fresh)
        for got, want in zip(fresh.get_weights(), model.get_weights()):
            np.testing.assert_array_equal(got, want)
        assert_equal_on_ranks(fresh.trainable_variables)
