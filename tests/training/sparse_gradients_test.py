"""Gradients that come as rows: what is trained is what dense gradients train, and rows travel."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.training.replicas import LOCAL, strategy
from tests.training.sparse_exchanges import note_exchanges

VOCABULARY, WIDTH, BATCH, STEPS = 64, 5, 4, 4
TOLERANCE = 1e-6

# One replica exchanges nothing.
local_replicas = pytest.mark.parametrize(
    "num_local", [number for number in LOCAL if adasum.size() * number > 1]
)

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.5),
    "decayed_momentum": lambda: keras.optimizers.SGD(0.5, momentum=0.9, weight_decay=0.01),
    "adam": lambda: keras.optimizers.Adam(0.05),
    "clipped_values": lambda: keras.optimizers.SGD(0.5, clipvalue=0.02),
    "clipped_norm": lambda: keras.optimizers.SGD(0.5, clipnorm=0.1),
}
SETTINGS = {
    "gradient": {"mode": "gradient"},
    "delta": {"mode": "delta"},
    "local_steps": {"steps_per_sync": 2},
    "accumulated": {"accumulate": 2},
}
CASES = [("sgd", setting, {}) for setting in SETTINGS] + [
    ("decayed_momentum", "delta", {}),
    ("decayed_momentum", "local_steps", {}),
    ("adam", "gradient", {}),
    ("adam", "delta", {}),
    ("clipped_values", "gradient", {}),
    ("clipped_values", "delta", {}),
    ("clipped_norm", "gradient", {}),
    ("sgd", "gradient", {"reductions": [("table", "mean")]}),
    ("sgd", "gradient", {"reductions": [("table", "max")]}),
    ("sgd", "delta", {"local_reduction": "mean"}),
]


def _train(num_local, optimizer, setting, options, is_dense):
    """Weights after a few steps of a table's rows against targets; every replica has its own."""
    replicas = strategy(num_local, **options)
    draw = np.random.default_rng(5)
    with replicas.scope():
        table, rest = [
            keras.Variable(draw.normal(size=shape).astype("float32"), name=name)
            for name, shape in (("table", (VOCABULARY, WIDTH)), ("rest", (WIDTH,)))
        ]
        wrapped = adasum.wrap(OPTIMIZERS[optimizer](), divided_loss=False, **SETTINGS[setting])
        wrapped.build([table, rest])

    @tf.function
    def step(number):
        def on_replica():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            # No index twice, since Keras' optimizers look at rows of one index one by one; some
            # rows of all replicas, others of one.
            ids = tf.concat([[0, 1], 2 + (replica + number) % 30 + [0, 31]], axis=0)
            with tf.GradientTape() as tape:
                rows = keras.ops.take(table, ids, axis=0)
                away = rows * rest.value - tf.cast(replica, tf.float32)
                loss = tf.reduce_mean(away**2)
            grads = tape.gradient(loss, [table.value, rest.value])
            if is_dense:
                grads = [tf.convert_to_tensor(grad) for grad in grads]
            wrapped.apply(grads, [table, rest])

        replicas.run(on_replica)

    for number in range(STEPS):
        step(tf.constant(number))
    with replicas.scope():
        return [replicas.experimental_local_results(v.value)[0].numpy() for v in (table, rest)]


@local_replicas
@pytest.mark.parametrize(("optimizer", "setting", "options"), CASES)
def test_rows_train_what_dense_gradients_train(optimizer, setting, options, num_local, monkeypatch):
    calls = note_exchanges(monkeypatch)
    by_rows = _train(num_local, optimizer, setting, options, is_dense=False)
    stays_sparse = setting != "accumulated"
    stays_sparse &= options in ({}, {"reductions": [("table", "mean")]})
    assert bool(calls) == stays_sparse
    dense = _train(num_local, optimizer, setting, options, is_dense=True)
    for mine, theirs in zip(by_rows, dense, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
