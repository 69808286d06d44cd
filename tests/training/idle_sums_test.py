"""What replicas add up and gather inside of `fit` leaves those without a row out."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.idle_batches import (
    PER_REPLICA,
    local_replicas,
    momentum,
    parts_of,
    rows_of_two_batches,
)
from tests.training.replicas import strategy


def logs_of_last_batch(make_model, num_local):
    """Of its second batch, in which half of the replicas have a row; and which do."""
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        model = make_model()
        model.compile(tf_adasum.wrap(momentum()))
    x = np.ones([rows_of_two_batches(number), 3], np.float32)
    logs = model.fit(x, batch_size=number * PER_REPLICA, shuffle=False, verbose=0).history
    rows = [len(part) for part, _ in list(parts_of(x, x, num_local, number))[-1]]
    return {name: value[0] for name, value in logs.items()}, np.flatnonzero(rows)


class Gathering(keras.Model):
    """Looks at the rows of all replicas, as contrastive losses do."""

    def train_step(self, data):
        context = tf.distribute.get_replica_context()
        rows = context.all_gather(data, axis=0)
        assert rows.shape[1] == 3
        (unknown,) = tf.numpy_function(lambda x: [x], [data], [tf.float32])
        assert unknown.shape.rank is None
        gathered = [rows, context.all_gather(unknown, axis=0), context.all_gather(unknown, axis=-2)]
        names = "known", "unknown", "from behind"
        return {name: tf.reduce_sum(each + 1) for name, each in zip(names, gathered)}


@local_replicas
def test_what_is_gathered(num_local):
    logs, with_rows = logs_of_last_batch(Gathering, num_local)
    want = 6 * len(with_rows)
    assert logs == {"known": want, "unknown": want, "from behind": want}


class Means(keras.Model):
    def train_step(self, data):
        context = tf.distribute.get_replica_context()
        own = context.replica_id_in_sync_group
        values = {
            "float32": tf.cast(own, tf.float32),
            "int32": own,
            "uint8": tf.cast(200 + own, tf.uint8),
            "true": own >= 0,
            "some": own > 0,
        }
        means = context.all_reduce("MEAN", values)
        return {name: tf.cast(mean, tf.float32) for name, mean in means.items()}


@local_replicas
def test_means(num_local):
    logs, with_rows = logs_of_last_batch(Means, num_local)
    mean = np.mean(with_rows)
    want = {"float32": mean, "int32": mean, "uint8": 200 + mean}
    want |= {"true": 1.0, "some": float((with_rows > 0).all())}
    assert logs == pytest.approx(want, rel=1e-6)
