"""What optimizers and callbacks can do, where ranks have unlike numbers of devices."""

from __future__ import annotations

import contextlib
import functools

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.other_devices import COUNTS, by_mean, on_devices
from tests.training.replicas import assert_equal_on_ranks, everywhere, examples, small_model
from tests.training.unlike_batches import RATE, assert_near

N = sum(COUNTS)
BATCH = 8 * N
SGD = functools.partial(keras.optimizers.SGD, RATE)
FEATURES = {
    "keras accumulates": functools.partial(SGD, gradient_accumulation_steps=2),
    "moving average": functools.partial(SGD, use_ema=True, ema_overwrite_frequency=2),
    "clipped": functools.partial(SGD, global_clipnorm=0.1),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_features_of_optimizers(feature):
    """Of the same rows on all replicas, whose gradients are then those of one process."""
    x, y = (np.tile(each[:8], (4 * N, 1)) for each in examples(8))
    weights = []
    for scope, wrap in (
        (contextlib.nullcontext(), lambda optimizer: optimizer),
        (by_mean().scope(), functools.partial(tf_adasum.wrap, mode="gradient")),
    ):
        with scope:
            keras.utils.set_random_seed(7)
            model = small_model()
            model.compile(wrap(FEATURES[feature]()), loss="mse")
        model.fit(x, y, BATCH, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    assert_near(weights[1], weights[0])


@pytest.mark.parametrize(
    "kind", ["frozen variance", "local steps", "measured", "orthogonality", "compiled"]
)
def test_ranks_stay_equal(kind):
    x, y = examples(4 * BATCH)
    with on_devices(batch_share="measured" if kind == "measured" else None).scope():
        model = small_model()
        frozen = tf_adasum.optimizers.OneBitAdam(0.01, freeze_step=4)
        optimizer = (
            frozen
            if kind == "frozen variance"
            else tf_adasum.wrap(SGD(), steps_per_sync=2 if kind == "local steps" else 1)
        )
        model.compile(optimizer, loss="mse", jit_compile=kind == "compiled")
    looks = [tf_adasum.callbacks.OrthogonalityLogger()] if kind == "orthogonality" else []
    history = model.fit(x, y, BATCH, epochs=3, verbose=0, callbacks=looks).history
    assert history["loss"][-1] < history["loss"][0]
    assert_equal_on_ranks(model.trainable_variables)
    for value in history.get("orthogonality", []):
        assert 1 / N - 1e-6 <= value <= 1 + 1e-6
        assert len(np.unique(everywhere(value))) == 1
