"""Ranks that were seeded differently still see every example once per epoch."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, everywhere, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.data.unlike_arrays import digest_of_rows

NUMBER = 50
local_replicas = pytest.mark.parametrize("num_local", LOCAL)


class Seen(keras.metrics.Metric):
    """How often each example was seen, known by its target."""

    def __init__(self):
        super().__init__(name="seen")
        self.counts = self.add_variable((NUMBER,), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        numbers = tf.cast(tf.reshape(y_true, [-1]), tf.int32)
        self.counts.assign_add(tf.reduce_sum(tf.one_hot(numbers, NUMBER), axis=0))

    def result(self):
        return tf.reduce_sum(self.counts)


class When(Seen):
    """In which step of the epoch each example was seen."""

    def __init__(self):
        super().__init__()
        self.step = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.step.assign_add(1.0)
        numbers = tf.cast(tf.reshape(y_true, [-1]), tf.int32)
        seen = tf.reduce_sum(tf.one_hot(numbers, NUMBER), axis=0)
        self.counts.assign_add(tf.convert_to_tensor(self.step) * seen)


class Batches(keras.utils.PyDataset):
    """Global batches, which Keras puts in an order by Python's `random`."""

    def __init__(self, x, y, batch_size, **options):
        super().__init__(**options)
        self._parts = [
            (x[first : first + batch_size], y[first : first + batch_size])
            for first in range(0, len(x), batch_size)
        ]

    def __len__(self):
        return len(self._parts)

    def __getitem__(self, index):
        return tuple(part.copy() for part in self._parts[index])


def numbered():
    return np.ones((NUMBER, 2), np.float32), np.arange(NUMBER, dtype=np.float32)[:, np.newaxis]


def of_arrays(batch_size):
    x, y = numbered()
    return {"x": x, "y": y, "batch_size": batch_size}


def of_tf_data(batch_size):
    data = tf.data.Dataset.from_tensor_slices(numbered()).shuffle(NUMBER)
    return {"x": data.batch(batch_size)}


def of_any_order(batch_size, deterministic=None):
    """Examples as they are ready, on each rank in an order of its own."""

    def example(number):
        if number // 10 % world().size == world().rank:
            time.sleep(0.01)
        return np.ones(2, np.float32), np.float32([number])

    def shaped(number):
        x, y = tf.numpy_function(example, [number], (tf.float32, tf.float32))
        return tf.ensure_shape(x, [2]), tf.ensure_shape(y, [1])

    def ten(first):
        return tf.data.Dataset.range(first, first + 10).map(shaped)

    data = tf.data.Dataset.range(0, NUMBER, 10)
    data = data.interleave(ten, 4, num_parallel_calls=4, deterministic=deterministic)
    options = tf.data.Options()
    options.deterministic = False
    return {"x": data.batch(batch_size).with_options(options)}


def of_batches(batch_size):
    return {"x": Batches(*numbered(), batch_size)}


def seed_by_rank():
    keras.utils.set_random_seed(100 + world().rank)


def counting_model(replicas, kind=Seen):
    with replicas.scope():
        seen = kind()
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(1e-6)), "mse", metrics=[seen])
    return model, seen


def check_seen_once(replicas, data, steps_per_epoch=None):
    model, seen = counting_model(replicas)
    for epochs in (1, 2):  # the counts are those of the last epoch
        model.fit(**data, epochs=epochs, verbose=0, steps_per_epoch=steps_per_epoch)
        np.testing.assert_array_equal(seen.counts.numpy(), np.ones(NUMBER))


@local_replicas
@pytest.mark.parametrize("make_data", [of_arrays, of_tf_data, of_batches])
def test_ranks_seeded_differently_before_the_strategy_is_made(make_data, num_local):
    seed_by_rank()
    replicas = strategy(num_local)
    check_seen_once(replicas, make_data(3 * replicas.num_replicas_in_sync))


@local_replicas
def test_ranks_that_finish_examples_in_unlike_orders(num_local):
    replicas = strategy(num_local)
    check_seen_once(replicas, of_any_order(3 * replicas.num_replicas_in_sync))


@local_replicas
def test_an_order_of_chance_is_refused(num_local):
    replicas = strategy(num_local)
    data = of_any_order(3 * replicas.num_replicas_in_sync, deterministic=False)
    if world().size == 1:
        check_seen_once(replicas, data)
        return
    model, _ = counting_model(replicas)
    with pytest.raises(ValueError, match=r"Received: deterministic=False\. Leave it out"):
        model.fit(**data, verbose=0)


@local_replicas
@pytest.mark.parametrize("make_data", [of_arrays, of_batches])
def test_ranks_seeded_differently_before_fit(make_data, num_local):
    replicas = strategy(num_local)
    seed_by_rank()
    check_seen_once(replicas, make_data(3 * replicas.num_replicas_in_sync))


def test_fit_leaves_ranks_the_seeds_that_they_have():
    replicas = strategy(1)
    model, _ = counting_model(replicas)
    seed_by_rank()
    model.fit(**of_arrays(3 * replicas.num_replicas_in_sync), verbose=0)
    drawn = everywhere(tf.random.uniform([4]))
    assert len({row.tobytes() for row in drawn}) == world().size


@local_replicas
@pytest.mark.parametrize("is_seeded", [True, False])
def test_pipelines_with_seeds_of_their_own_are_refused_on_all_ranks(is_seeded, num_local):
    replicas = strategy(num_local)
    seed_by_rank() if is_seeded else tf.random.set_seed(None)
    data = of_tf_data(3 * replicas.num_replicas_in_sync)
    if world().size == 1:
        check_seen_once(replicas, data)
        return
    model, _ = counting_model(replicas)
    told = "rank 1 shuffles it by seeds of its own" if is_seeded else "no seed on any rank: "
    with pytest.raises(ValueError, match=told):
        model.fit(**data, verbose=0)
    # What no share hangs on may differ: a shuffle in a pipeline that is not sharded.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    model.fit(data["x"].with_options(options), verbose=0)


def test_data_that_the_program_deals_itself_is_refused():
    """TensorFlow would deal it again: of two ranks' rows half would be nobody's."""
    replicas = strategy(1)
    rank, size = world().rank, world().size
    rows = tf.data.Dataset.from_tensor_slices(numbered()).shard(size, rank)
    data = rows.map(lambda x, y: (x, y)).batch(3 * replicas.num_replicas_in_sync)
    model, _ = counting_model(replicas)
    if size > 1:
        received = rf"Received: shard\({size}, 0\) on rank 0, shard\({size}, 1\) on rank 1\. Leave"
        with pytest.raises(ValueError, match=rf"Expected the whole data on all ranks.*{received}"):
            model.fit(data, verbose=0)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    model.fit(data.with_options(options), verbose=0)
    # The same part for all is the program's choice of data.
    part = tf.data.Dataset.from_tensor_slices(numbered()).shard(2, 0)
    model.fit(part.batch(3 * replicas.num_replicas_in_sync), verbose=0)


def test_a_digest_hangs_on_rows_of_every_kind_of_array():
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    ragged = tf.ragged.constant([[1], [2, 3]])
    kinds = [rows, tf.constant(rows), np.array(["a", "b"]), np.array(["a", None]), ragged]
    kinds += [
        tf.sparse.from_dense(rows),
        tf.constant(["a", "b"]),
        np.float32(1),
        None,
        [rows, rows],
    ]
    for kind in kinds:
        assert digest_of_rows(kind) == digest_of_rows([kind])
    unlike = [rows, rows[:5], rows.astype("f8"), rows[::2], rows[1::2]]
    assert len(set(map(digest_of_rows, unlike))) == 5


def test_unlike_arrays_are_told(caplog):
    replicas = strategy(1)
    rank, size = world().rank, world().size
    x, y = numbered()
    model, _ = counting_model(replicas)
    options = {"batch_size": 3 * size, "verbose": 0}
    model.fit(x, y, validation_data=(x, y), **options)
    model.predict(x, **options)
    assert "other arrays" not in caplog.text
    own = np.random.default_rng(7 + rank).permutation(NUMBER)[: NUMBER // size]
    for name, arrays in (
        ("fit", (x[own], y[own])),
        ("evaluate", (x[own], y[own])),
        ("predict", (y[own].repeat(2, axis=1),)),
    ):
        caplog.clear()
        getattr(model, name)(*arrays, **options)
        line = f"{name}: rank 1 was given other arrays than rank 0. "
        assert caplog.text.count(line) == (rank == 0 and size > 1)
        assert "other tensors" not in caplog.text


def test_pipelines_of_unlike_tensors_are_told(caplog):
    """As of a split without a seed; not where ranks have rows of their own on purpose."""
    replicas = strategy(1)
    rank, size = world().rank, world().size
    model, _ = counting_model(replicas)
    x, y = numbered()
    off = tf.data.Options()
    off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF

    def fit_on(order, options):
        data = tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(3 * size)
        model.fit(data.with_options(options), verbose=0)

    own = np.random.default_rng(7 + rank).permutation(NUMBER)
    fit_on(np.arange(NUMBER), tf.data.Options())
    fit_on(own, off)
    assert "other tensors" not in caplog.text
    fit_on(own, tf.data.Options())
    line = "rank 1 was given a pipeline of other tensors than rank 0. "
    assert caplog.text.count(line) == (rank == 0 and size > 1)


def test_unlike_batch_sizes_are_told(caplog):
    replicas = strategy(1)
    rank, size = world().rank, world().size
    model, _ = counting_model(replicas)
    model.fit(*numbered(), batch_size=3 * size * (1 + rank), verbose=0)
    line = f"fit: rank 1 was given batch_size={6 * size}, and rank 0 batch_size={3 * size}. "
    assert caplog.text.count(line) == (rank == 0 and size > 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rank_may_train_another_model_in_a_callback(workers):
    """The order of batches goes on as before: all ranks train on the same one in a step."""
    model, when = counting_model(strategy(1), When)
    batch = 5 * world().size
    data = Batches(*numbered(), batch, workers=workers)

    def train_alone(epoch, logs):
        if epoch == 0 and world().rank == 0:
            alone = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            alone.compile("sgd", "mse")
            alone.fit(np.ones((8, 1)), np.ones((8, 1)), verbose=0)

    other = keras.callbacks.LambdaCallback(on_epoch_end=train_alone)
    model.fit(data, epochs=3, shuffle=True, verbose=0, callbacks=[other])
    steps = when.counts.numpy()
    of_batches = [steps[begin : begin + batch] for begin in range(0, NUMBER, batch)]
    np.testing.assert_array_equal(steps, np.concatenate([[s[0]] * len(s) for s in of_batches]))
    assert sorted(s[0] for s in of_batches) == list(range(1, len(of_batches) + 1))
