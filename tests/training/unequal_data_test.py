"""Ranks with unequal numbers of batches train to the end of the longest."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world


def own_rows(num_local, known):
    """Examples for 5 batches on even ranks and 4 on odd ones; their number is known or not."""
    x, y = examples(5 * 2 * num_local, seed=world().rank)
    rows = (5 - world().rank % 2) * 2 * num_local
    pipeline = tf.data.Dataset.from_tensor_slices((x[:rows], y[:rows]))
    return pipeline if known else pipeline.filter(lambda x, y: True)


def from_function(replicas, num_local, known):
    return replicas.distribute_datasets_from_function(
        lambda context: own_rows(num_local, known).batch(2)
    )


def without_shards(replicas, num_local, known):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # TensorFlow makes parts of 2 for each replica of it.
    pipeline = own_rows(num_local, known).batch(2 * replicas.num_replicas_in_sync)
    return pipeline.with_options(options)


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("make_data", [from_function, without_shards])
def test_ranks_may_have_unequal_numbers_of_batches(make_data, num_local):
    """It is the same training, whether their numbers are known or not."""
    weights = []
    for known in (True, False):
        replicas = strategy(num_local)
        with replicas.scope():
            keras.utils.set_random_seed(7)
            model = small_model()
            model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
        data = make_data(replicas, num_local, known)
        history = model.fit(data, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()
        logs = model.evaluate(data, verbose=0)
        assert (everywhere(logs) == logs).all()
        assert_equal_on_ranks(model.trainable_variables)
        weights.append(model.get_weights())
    for of_known, of_unknown in zip(*weights):
        np.testing.assert_array_equal(of_known, of_unknown)
