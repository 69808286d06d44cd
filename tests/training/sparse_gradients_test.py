"""Gradients that come as rows: what is trained is what dense gradients train, and rows travel."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.training.replicas import LOCAL, strategy
from tf_adasum.distribute import cross_device_ops

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
    "clipped": lambda: keras.optimizers.SGD(0.5, clipnorm=0.1),
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
    ("clipped", "gradient", {}),
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


@pytest.fixture(name="calls")
def _calls(monkeypatch):
    """How often rows were exchanged, or are in a graph that was traced."""
    made = []
    original = cross_device_ops.sparse_allreduce_replicas

    def note(leaves, *args, **kwargs):
        made.append(len(leaves[0]))
        return original(leaves, *args, **kwargs)

    monkeypatch.setattr(cross_device_ops, "sparse_allreduce_replicas", note)
    return made


@local_replicas
@pytest.mark.parametrize(("optimizer", "setting", "options"), CASES)
def test_rows_train_what_dense_gradients_train(optimizer, setting, options, num_local, calls):
    by_rows = _train(num_local, optimizer, setting, options, is_dense=False)
    stays_sparse = setting != "accumulated" and optimizer != "clipped"
    stays_sparse &= options in ({}, {"reductions": [("table", "mean")]})
    assert bool(calls) == stays_sparse or optimizer == "clipped"
    dense = _train(num_local, optimizer, setting, options, is_dense=True)
    for mine, theirs in zip(by_rows, dense, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


class DenseEmbedding(keras.layers.Embedding):
    """The control: the same numbers through a product, whose gradient is dense."""

    def call(self, inputs):
        return tf.one_hot(inputs, self.input_dim) @ tf.convert_to_tensor(self.embeddings)


def _skip_grams(seed):
    """Pairs of words of a made-up corpus, Zipf-like, with as many negative samples."""
    draw = np.random.default_rng(seed)
    corpus = (VOCABULARY * draw.random(400) ** 3).astype(np.int32)
    near = np.stack([corpus[:-1], corpus[1:]], axis=1)
    far = np.stack([corpus[:-1], draw.permutation(corpus)[:-1]], axis=1)
    pairs = np.concatenate([near, far])
    labels = np.repeat([1.0, 0.0], len(near)).astype(np.float32)
    order = draw.permutation(len(pairs))
    return pairs[order], labels[order]


def _fit_word2vec(num_local, mode, embedding, rows_left):
    """Losses and weights; the last batch of an epoch has as many rows as are left."""
    replicas = strategy(num_local)
    batch = 8 * replicas.num_replicas_in_sync
    rows = 8 * batch + rows_left
    pairs, labels = (array[:rows] for array in _skip_grams(3))
    keras.utils.set_random_seed(8)
    with replicas.scope():
        words = keras.Input((2,), dtype="int32")
        vectors = [
            embedding(VOCABULARY, WIDTH, name=name)(words[:, i])
            for i, name in enumerate(("target", "context"))
        ]
        scores = keras.layers.Dot(axes=1)(vectors)
        model = keras.Model(words, scores)
        optimizer = adasum.wrap(keras.optimizers.SGD(2.0), mode=mode)
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        model.compile(optimizer, loss, jit_compile=False)
    history = model.fit(pairs, labels, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


@local_replicas
@pytest.mark.parametrize("rows_left", [8, 1], ids=["", "idle replicas"])
@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_word2vec_beside_a_dense_control(mode, rows_left, num_local, calls):
    losses, weights = _fit_word2vec(num_local, mode, keras.layers.Embedding, rows_left)
    assert calls
    traced = len(calls)
    dense_losses, dense_weights = _fit_word2vec(num_local, mode, DenseEmbedding, rows_left)
    assert len(calls) == traced
    assert losses[1] < losses[0]
    np.testing.assert_allclose(losses, dense_losses, rtol=TOLERANCE)
    for mine, theirs in zip(weights, dense_weights, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
