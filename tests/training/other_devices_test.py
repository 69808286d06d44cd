"""Ranks with unlike numbers of devices train as one process does: every replica counts alike."""

from __future__ import annotations

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.other_devices import COUNTS, OTHERS, both, by_mean, on_devices, ranks_replicas
from tests.training.replicas import (
    assert_equal_on_ranks,
    examples,
    shared_path,
    small_model,
)
from tests.training.unlike_batches import RATE, assert_near, model_under, one_process
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.own_variables import residual_variables
from tf_adasum.distribute.variables import local_copies

N = sum(COUNTS)
BATCH = 8 * N


@both
@pytest.mark.parametrize(
    ("how", "scales_loss"),
    [("plain", False), ("plain", True), ("gradient", True), ("delta", False), ("sketched", False)],
)
def test_means_are_the_steps_of_one_process(how, scales_loss, counts):
    """Also of a last batch that the replicas do not divide, and of fewer rows than there are.

    A rank by itself has as many devices as all others: then replicas count alike in each batch.
    """
    last = (3, 1) if len(set(counts)) > 1 else (sum(counts), 2 * sum(counts))
    for rows in (2 * BATCH + last[0], BATCH + last[1]):
        x, y = examples(rows)
        model = model_under(by_mean(counts), how, scales_loss)
        history = model.fit(x, y, BATCH, shuffle=False, verbose=0).history
        expected, loss = one_process(x, y, BATCH)
        assert_near(model.get_weights(), expected)
        np.testing.assert_allclose(history["loss"], loss, rtol=1e-5)
        assert_equal_on_ranks(model.trainable_variables)


@both
@pytest.mark.parametrize("rows", [2 * BATCH, 2 * BATCH + 3, 1])
def test_predictions_and_metrics_are_of_all_rows_in_their_order(rows, counts):
    x, y = examples(rows)
    model = model_under(by_mean(counts), "gradient")
    expected = np.tanh(x @ model.get_weights()[0]) @ model.get_weights()[2]
    np.testing.assert_allclose(model.predict(x, BATCH, verbose=0), expected, atol=1e-6)
    data = tf.data.Dataset.from_tensor_slices(x).batch(BATCH)
    np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=1e-6)
    loss = model.evaluate(x, y, BATCH, verbose=0)
    np.testing.assert_allclose(loss, np.mean((expected - y) ** 2), rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": tf_adasum.compression.Identity(least_elements=0)},
        {"unused_variables": True},
        {"sync": tf_adasum.sync.Deadline(600_000, 0.01)},
        {"accumulate": 2},
    ],
    ids=["encoded", "unused", "deadline", "accumulated"],
)
def test_means_of_other_exchanges(settings):
    count = settings.get("accumulate", 1)
    x, y = examples(2 * count * BATCH)
    model = model_under(by_mean(), "gradient", **settings)
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, count * BATCH)[0])


@pytest.mark.long
@both
@pytest.mark.parametrize("how", ["gradient", "delta"])
def test_leaves_of_adasum_are_all_replicas(how, counts):
    """Of N leaves of as many rows each: those of a rank follow each other."""
    number = sum(counts)
    x, y = examples(2 * 4 * number)
    model = model_under(on_devices(counts), how)
    weights = [np.float64(weight) for weight in model.get_weights()]
    model.fit(x, y, 4 * number, shuffle=False, verbose=0)
    for parts in np.split(np.arange(len(x)), 2):
        changes = [_changes(weights, x[own], y[own]) for own in np.split(parts, number)]
        weights = [
            weight + adasum.reduce(list(each)) for weight, each in zip(weights, zip(*changes))
        ]
    for own, other in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    assert_equal_on_ranks(model.trainable_variables)


def _changes(weights, x, y):
    """Of one step by SGD."""
    model = small_model()
    model.compile(keras.optimizers.SGD(RATE), loss="mse")
    model.set_weights(weights)
    model.train_on_batch(x, y)
    return [np.float64(new) - old for new, old in zip(model.get_weights(), weights)]


@pytest.mark.long
def test_rows_of_embeddings_and_moments_of_batches():
    def embed():
        keras.utils.set_random_seed(7)
        layers = [keras.Input((2,)), keras.layers.Embedding(20, 8)]
        model = keras.Sequential([*layers, keras.layers.BatchNormalization(synchronized=True)])
        return model

    x = np.random.default_rng(0).integers(0, 20, (BATCH, 2))
    y = np.random.default_rng(1).normal(size=(BATCH, 2, 8)).astype(np.float32)
    plain = embed()
    plain.compile(keras.optimizers.SGD(RATE), loss="mse")
    plain.fit(x, y, BATCH, shuffle=False, verbose=0)
    for how in ("gradient", "delta"):
        with by_mean().scope():
            model = embed()
            optimizer = tf_adasum.wrap(keras.optimizers.SGD(RATE), mode=how)
            model.compile(optimizer, loss="mse")
        model.fit(x, y, BATCH, shuffle=False, verbose=0)
        for mine, expected in zip(model.get_weights(), plain.get_weights(), strict=True):
            np.testing.assert_allclose(mine, expected, atol=1e-5)


def test_shares_and_speeds_go_by_replicas():
    shares = on_devices().batch_shares
    np.testing.assert_allclose(shares, np.array(COUNTS) / N)
    np.testing.assert_allclose(on_devices(batch_share="measured").batch_shares, shares)
    given = list(range(1, 1 + world().size))
    x, y = examples(sum(given) * 8)
    model = model_under(by_mean(batch_share=given), "gradient")
    model.fit(x, y, len(x), shuffle=False, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, len(x))[0])


@pytest.mark.long
@pytest.mark.parametrize("in_scope", [False, True], ids=["", "seeds in scope"])
def test_a_training_goes_on_where_it_was(in_scope):
    """Each replica's own slots, residuals and seeds; on other numbers of devices no residuals."""
    path = shared_path("backup")
    x, y = examples(4 * BATCH)

    looked = []  # the largest residual when training begins

    def lost(model):
        copies = [local_copies(each.variable) for each in residual_variables(model)]
        return max((np.abs(copy.numpy()).max() for each in copies for copy in each), default=0)

    def train(counts, epochs, kept):
        keras.utils.set_random_seed(7)
        replicas = on_devices(counts)
        with replicas.scope() if in_scope else contextlib.nullcontext():
            keras.random.normal([2])  # makes the generator of what has no seed
        with replicas.scope():
            model = small_model(keras.layers.Dropout(0.3))
            codec = tf_adasum.compression.Sign(least_elements=0)
            optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
            model.compile(tf_adasum.wrap(optimizer, mode="delta", compression=codec), loss="mse")
        backup = tf_adasum.callbacks.BackupAndRestore(path, delete_checkpoint=False)
        look = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: looked.append(lost(model))
        )
        callbacks = [backup, look] if kept else []
        history = model.fit(
            x, y, BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
        )
        return model.get_weights(), history.history["loss"]

    whole, losses = train(COUNTS, 2, kept=False)
    train(COUNTS, 1, kept=True)
    resumed, last = train(COUNTS, 2, kept=True)
    for own, other in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(own, other)
    assert last == losses[1:]
    _, last = train(OTHERS, 3, kept=True)
    assert len(last) == 1 and last[0] < losses[0]
    assert looked[0] == looked[2] == 0 < looked[1]


@pytest.mark.long
def test_groups_that_nobody_waits_in():
    sync = tf_adasum.sync.GroupAveraging(group_size=2, sync_every=2)
    model = model_under(by_mean(), "delta", sync=sync)
    x, y = examples(4 * BATCH)
    history = model.fit(x, y, BATCH, epochs=3, shuffle=False, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.long
def test_pipelines_that_are_not_dealt():
    """A replica takes as many rows of its rank's own pipeline as of one that is dealt."""
    x, y = examples(2 * BATCH)
    model = model_under(by_mean(), "gradient")
    own = [
        begin + 8 * replica + row
        for begin, replica, row in itertools.product((0, BATCH), ranks_replicas(), range(8))
    ]
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = tf.data.Dataset.from_tensor_slices((x[own], y[own])).batch(BATCH).with_options(options)
    model.fit(data, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, BATCH)[0])
    outputs = model.predict(data.map(lambda x, y: x).with_options(options), verbose=0)
    first, bias, second, last_bias = model.get_weights()
    expected = np.tanh(x[own] @ first + bias) @ second + last_bias
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_what_needs_as_many_devices_says_so():
    x, y = examples(BATCH)
    with by_mean().scope():
        model = small_model()
        lazy = tf_adasum.wrap(keras.optimizers.SGD(RATE), sync=tf_adasum.sync.Lazy())
        model.compile(lazy, loss="mse")
    if len(set(COUNTS)) == 1:  # a rank by itself has as many as all others
        model.fit(x, y, BATCH, verbose=0)
        assert model.optimizer.uploads.num_steps == 1
        return
    with pytest.raises(ValueError, match=r"as many devices each. Received: \[2, 1"):
        model.fit(x, y, BATCH, verbose=0)
    with pytest.raises(ValueError, match=r"as many devices on each rank.* Received: \[2, 1"):
        tf_adasum.advise(model, x, y=y, batch_size=BATCH)


def test_batches_that_ranks_make_by_themselves():
    """Of as many rows for each replica."""
    x, y = examples(2 * BATCH)
    replicas = by_mean()
    model = model_under(replicas, "gradient")
    own = [
        (begin + row)
        for begin, replica in itertools.product((0, BATCH), ranks_replicas())
        for row in range(8 * replica, 8 * replica + 8)
    ]

    def make(context):
        size = context.get_per_replica_batch_size(BATCH)
        return tf.data.Dataset.from_tensor_slices((x[own], y[own])).batch(size)

    model.fit(replicas.distribute_datasets_from_function(make), verbose=0)
    assert_near(model.get_weights(), one_process(x, y, BATCH)[0])
