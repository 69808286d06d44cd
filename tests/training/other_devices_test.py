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
from tests.training.replicas import (
    assert_equal_on_ranks,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tests.training.unlike_batches import RATE, assert_near, model_under, one_process
from tf_adasum.collectives.communicator import world

COUNTS = [2, 1, 2, 1, 1][: world().size]
OTHERS = [1, 2, 1, 1, 2][: world().size]
N = sum(COUNTS)
BATCH = 8 * N
both = pytest.mark.parametrize("counts", [COUNTS, OTHERS], ids=str)


def on_devices(counts=None, **options):
    """A strategy with this rank's number of devices."""
    return strategy((counts or COUNTS)[world().rank], **options)


def by_mean(counts=None, **options):
    return on_devices(counts, reductions=[(".", "mean")], **options)


def ranks_replicas(counts=None):
    counts = counts or COUNTS
    first = sum(counts[: world().rank])
    return list(range(first, first + counts[world().rank]))


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


@both
@pytest.mark.parametrize("how", ["plain", "gradient"])
def test_loops_of_ones_own(how, counts):
    batch_size = 8 * sum(counts)  # in a loop of one's own replicas' rows must be those of shares
    x, y = examples(2 * batch_size)
    replicas = by_mean(counts)
    model = model_under(replicas, how)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)

    @tf.function
    def train(batch):
        def step(batch_x, batch_y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(batch_x) - batch_y) ** 2)
                divided = loss / replicas.num_replicas_in_sync
            gradients = tape.gradient(divided, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            return loss, tf.shape(batch_x)[0]

        losses, rows = replicas.run(step, batch)
        return replicas.reduce("SUM", rows, axis=None), replicas.reduce("MEAN", losses, axis=None)

    for batch in replicas.experimental_distribute_dataset(data):
        rows, loss = train(batch)
        assert (int(rows), bool(loss > 0)) == (batch_size, True)
        assert len(np.unique(everywhere(loss))) == 1
    assert_near(model.get_weights(), one_process(x, y, batch_size)[0])


@pytest.mark.parametrize("counts", [COUNTS, OTHERS, [2] * world().size], ids=str)
def test_what_replicas_hand_on_counts_once_for_each(counts):
    replicas = on_devices(counts)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        kinds = {
            each: tf.Variable(0.0, aggregation=each, synchronization=of_reads)
            for each, of_reads in (
                (tf.VariableAggregation.MEAN, tf.VariableSynchronization.AUTO),
                (tf.VariableAggregation.SUM, tf.VariableSynchronization.ON_READ),
            )
        }
    common = tf.constant(3.0)

    def step():
        context = tf.distribute.get_replica_context()
        own = tf.cast(context.replica_id_in_sync_group, tf.float32)
        mean, total = kinds.values()
        mean.assign(own)
        total.assign(own)
        merged = context.merge_call(
            lambda strategy, value: strategy.reduce("SUM", value, axis=None), args=(own,)
        )
        everything = context.all_reduce("SUM", [own, common])
        return own, merged, everything, context.all_gather(tf.reshape(own, [1]), axis=0)

    for run in (lambda: replicas.run(step), tf.function(lambda: replicas.run(step))):
        own, merged, (total, of_common), gathered = run()
        ids = [float(each) for each in replicas.experimental_local_results(own)]
        assert ids == ranks_replicas(counts)
        for each in replicas.experimental_local_results(merged):
            assert each == sum(range(number))
        for each in replicas.experimental_local_results(total):
            assert each == sum(range(number))
        for each in replicas.experimental_local_results(of_common):
            assert each == 3 * number
        for each in replicas.experimental_local_results(gathered):
            assert each.numpy().tolist() == list(range(number))
        assert replicas.reduce("SUM", own, axis=None) == sum(range(number))
        assert replicas.gather(tf.nest.map_structure(lambda v: v, gathered), axis=0).shape == (
            number * number
        )
        values = [float(variable) for variable in kinds.values()]
        assert values == [sum(range(number)) / number, sum(range(number))]


def test_a_tensor_that_all_replicas_assign_is_their_mean():
    replicas = on_devices()
    with replicas.scope():
        variable = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
    same = tf.constant(5.0)
    replicas.run(tf.function(lambda: variable.assign(same)))
    assert float(variable) == 5.0


def test_shares_and_speeds_go_by_replicas():
    shares = on_devices().batch_shares
    np.testing.assert_allclose(shares, np.array(COUNTS) / N)
    np.testing.assert_allclose(on_devices(batch_share="measured").batch_shares, shares)
    given = list(range(1, 1 + world().size))
    x, y = examples(sum(given) * 8)
    model = model_under(by_mean(batch_share=given), "gradient")
    model.fit(x, y, len(x), shuffle=False, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, len(x))[0])


@pytest.mark.parametrize("in_scope", [False, True], ids=["", "seeds in scope"])
def test_a_training_goes_on_where_it_was(in_scope):
    """Each replica's own slots, residuals and seeds come back; on other numbers, their means."""
    path = shared_path("backup")
    x, y = examples(4 * BATCH)

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
        callbacks = [backup] if kept else []
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


def test_groups_that_nobody_waits_in():
    sync = tf_adasum.sync.GroupAveraging(group_size=2, sync_every=2)
    model = model_under(by_mean(), "delta", sync=sync)
    x, y = examples(4 * BATCH)
    history = model.fit(x, y, BATCH, epochs=3, shuffle=False, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert_equal_on_ranks(model.trainable_variables)


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
