"""Ranks whose layers were made in another order, or learned other things, hear of it at once."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers
from keras.optimizers import SGD

import tf_adasum as adasum
from tests.training.replicas import NUM_FEATURES, examples, strategy
from tf_adasum.collectives.communicator import world

RANK, LAST = world().rank, world().size - 1
IS_LAST = RANK == LAST


def _fit(make, **compiled):
    """Trains what `make` makes of the first layer's output, on tables of numbers."""
    x, y = examples(32)
    with strategy(1).scope():
        inputs = keras.Input((NUM_FEATURES,))
        outputs = make(inputs)
        model = keras.Model(inputs, outputs)
        model.compile(adasum.wrap(SGD(0.01)), **{"loss": "mse", **compiled})
    y = y[:, :1] if not isinstance(outputs, dict) else {name: y[:, :1] for name in outputs}
    return model.fit(x, y, batch_size=16, verbose=0).history["loss"]


def _through(layer):
    return lambda inputs: layers.Dense(1)(layer(inputs))


def _heads(names, inputs):
    return {name: layers.Dense(1, name=name)(inputs) for name in names}


def _normalization(factor):
    layer = layers.Normalization()
    layer.adapt(factor * examples(32)[0])
    return _through(layer)


def _discretization(borders):
    layer = layers.Discretization(bin_boundaries=borders)
    numbers = layers.Lambda(lambda x: keras.ops.cast(x, "float32"))
    return lambda inputs: layers.Dense(1)(numbers(layer(inputs)))


def _lookup(words):
    layer = layers.IntegerLookup(vocabulary=words, output_mode="multi_hot")
    whole = layers.Lambda(lambda x: keras.ops.cast(x, "int32"))
    return lambda inputs: layers.Dense(1)(layer(whole(inputs)))


def _texts(words, **settings):
    layer = layers.TextVectorization(vocabulary=words, **{"output_mode": "multi_hot", **settings})
    return lambda inputs: _beside(layer, inputs)


def _beside(layer, inputs):
    """A model that holds the layer and does not call it."""
    dense = layers.Dense(1)
    dense.beside = layer
    return dense(inputs)


# What unlike ranks make, and what the error says of them.
UNLIKE = {
    "order of variables": (
        lambda: lambda inputs: _heads(["one", "two"][:: -1 if IS_LAST else 1], inputs),
        "one/kernel on rank 0, two/kernel on rank .*, as number 1. Make layers in one order",
    ),
    "state of IntegerLookup 1": (
        lambda: _lookup([2, 1] if IS_LAST else [1, 2]),
        "2 words, 2 at the end on rank 0, 2 words, 1 at the end on rank .*. Adapt it",
    ),
    "state of StringLookup 1": (
        lambda: _texts(["a", "c"] if IS_LAST else ["a", "b"]),
        "2 words, 'b' at the end on rank 0, 2 words, 'c' at the end .*. Adapt it",
    ),
    "state of StringLookup 1 (weights)": (
        lambda: _texts(["a", "b"], output_mode="tf_idf", idf_weights=[1, 3 if IS_LAST else 2]),
        "2 words, 'b' at the end on rank 0, 2 words, 'b' at the end .*. Adapt it",
    ),
    "state of Normalization 1": (
        lambda: _normalization(2 if IS_LAST else 1),
        "mean .* and variance .* of the first on rank 0, mean .*. Adapt it",
    ),
    "state of Discretization 1": (
        lambda: _discretization([0.0, 0.5 if IS_LAST else 1.0]),
        r"borders of bins \[0.0, 1.0\] on rank 0, borders of bins \[0.0, 0.5\] .*. Adapt it",
    ),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_unlike_layers_are_told_when_fit_begins(what):
    make, received = UNLIKE[what]
    if LAST == 0:
        assert np.isfinite(_fit(make())).all()
        return
    named = what.partition(" (")[0]
    said = f"^rank {RANK}: Expected the same {named} on all ranks when fit begins. Received: "
    with pytest.raises(ValueError, match=said + received):
        _fit(make())


def test_what_is_alike_trains():
    """Also what is not adapted or no text, and numbers that were added up in another order."""
    alike = [
        _lookup([1, 2]),
        _texts([b"caf\xe9", b"b"]),
        _normalization(1 + 1e-6 * RANK),
        _discretization([]),
        _discretization([0.0, 1.0]),
        lambda inputs: _beside(layers.StringLookup(num_oov_indices=0), inputs),
    ]
    for make in alike:
        assert np.isfinite(_fit(make)).all()


def test_dictionaries_have_no_order():
    names = ["one", "two"]
    losses = dict.fromkeys(names[:: -1 if IS_LAST else 1], "mse")
    assert np.isfinite(_fit(lambda inputs: _heads(names, inputs), loss=losses)).all()
