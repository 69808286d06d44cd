"""Batches that end in None: (x, None) is x alone, and (x, y, None) has no weights."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy

NUM_ROWS = 24


def _batches(x, y, parts: str, how: str):
    """In the form that Keras is given, with None for what `parts` lacks."""
    given = {"x": x, "y": y, "w": np.ones(len(x), np.float32)}

    def batch(first):
        rows = slice(first, first + NUM_ROWS // 2)
        return tuple(None if name == "-" else given[name][rows] for name in parts)

    if how == "generator":
        return (batch(first) for first in range(0, NUM_ROWS, NUM_ROWS // 2))
    whole = {name: tf.constant(value) for name, value in given.items()}
    rows = tf.data.Dataset.from_tensor_slices(whole)
    return rows.map(lambda row: tuple(None if name == "-" else row[name] for name in parts)).batch(
        NUM_ROWS // 2
    )


class OwnLoss(keras.Sequential):
    """Its loss is the mean square of its outputs, where it has no targets."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if y is None:
            return keras.ops.mean(keras.ops.square(y_pred))
        return super().compute_loss(x, y, y_pred, sample_weight, training)


@pytest.mark.parametrize("how", ["generator", "pipeline"])
@pytest.mark.parametrize(("parts", "same"), [("x--", "x"), ("xy-", "xy")])
def test_they_count_as_batches_without_it(parts, same, how):
    x, y = examples(NUM_ROWS)
    weights = []
    for given in (parts, same):
        with strategy(LOCAL[-1]).scope():
            model = OwnLoss(small_model().layers)
            model.build((None, x.shape[1]))
            model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
        shapes = [weight.shape for weight in model.get_weights()]
        model.set_weights([np.random.default_rng(0).normal(size=shape) for shape in shapes])
        model.fit(_batches(x, y, given, how), verbose=0)
        model.evaluate(_batches(x, y, given, how), verbose=0)
        assert len(model.predict(_batches(x, y, given, how), verbose=0)) == NUM_ROWS
        assert_equal_on_ranks(model.weights)
        weights.append(model.get_weights())
    for mine, theirs in zip(*weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("how", ["generator", "pipeline"])
def test_one_in_front_of_weights_is_refused(how):
    with strategy(1).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
    with pytest.raises(ValueError, match=r"Received: None in part 2 of 3\. Leave it out"):
        model.fit(_batches(*examples(NUM_ROWS), "x-w", how), verbose=0)
