"""`fit` of models with embeddings, whose gradients travel as rows, beside a dense control."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, strategy
from tests.training.sparse_exchanges import note_exchanges

VOCABULARY, WIDTH, PER_REPLICA = 64, 5, 8
TOLERANCE = 1e-6

# One replica exchanges nothing.
local_replicas = pytest.mark.parametrize(
    "num_local", [number for number in LOCAL if adasum.size() * number > 1]
)


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


def _word2vec(embedding):
    words = keras.Input((2,), dtype="int32")
    vectors = [
        embedding(VOCABULARY, WIDTH, name=name)(words[:, i])
        for i, name in enumerate(("target", "context"))
    ]
    return keras.Model(words, keras.layers.Dot(axes=1)(vectors))


def _fit(num_local, mode, embedding):
    """Losses and weights; in each epoch's last batch is one row, and other replicas have none."""
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    pairs, labels = (data[: 8 * PER_REPLICA * number + 1] for data in _skip_grams(3))
    keras.utils.set_random_seed(8)
    with replicas.scope():
        model = _word2vec(embedding)
        optimizer = adasum.wrap(keras.optimizers.SGD(2.0), mode=mode)
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        model.compile(optimizer, loss, jit_compile=False)
    batch = PER_REPLICA * number
    history = model.fit(pairs, labels, batch_size=batch, epochs=3, shuffle=False, verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
    return history.history["loss"], model.get_weights()


@local_replicas
@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_fit_beside_a_dense_control(mode, num_local, monkeypatch):
    """A replica without rows is Adasum's zero, with gradients of either kind."""
    exchanges = note_exchanges(monkeypatch)
    losses, weights = _fit(num_local, mode, keras.layers.Embedding)
    assert exchanges
    traced = len(exchanges)
    dense_losses, dense_weights = _fit(num_local, mode, DenseEmbedding)
    assert len(exchanges) == traced
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, dense_losses, rtol=TOLERANCE)
    for mine, theirs in zip(weights, dense_weights, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
