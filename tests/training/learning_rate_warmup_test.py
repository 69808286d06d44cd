"""A learning rate that grows with the steps made, as a schedule of the same formula would."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.gan import Gan
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy

RATE = 0.05
NUM_STEPS = 5


class Formula(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        share = (keras.ops.cast(step, "float32") + 1) / NUM_STEPS
        return RATE * keras.ops.minimum(share, 1.0)


def fit(num_local, rate, callbacks, parts=(slice(None),), **wrapped):
    """Trains 8 batches, a call of `fit` for each part of them; returns the model."""
    replicas = strategy(num_local)
    batch = 2 * replicas.num_replicas_in_sync
    x, y = examples(8 * batch)
    with replicas.scope():
        keras.utils.set_random_seed(1)
        model = small_model()
        optimizer = keras.optimizers.SGD(rate, momentum=0.5)
        model.compile(tf_adasum.wrap(optimizer, **wrapped), loss="mse")
    for part in parts:
        rows = slice(*(None if end is None else end * batch for end in (part.start, part.stop)))
        model.fit(
            x[rows], y[rows], batch_size=batch, shuffle=False, verbose=0, callbacks=callbacks()
        )
    assert_equal_on_ranks(model.trainable_variables)
    return model


def warmup():
    return [tf_adasum.callbacks.LearningRateWarmup(RATE, NUM_STEPS)]


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("parts", [(slice(None),), (slice(0, 2), slice(2, 8))])
def test_equals_the_schedule_also_when_resumed(num_local, parts):
    warmed = fit(num_local, RATE, warmup, parts)
    scheduled = fit(num_local, Formula(), list)
    for one, other in zip(warmed.get_weights(), scheduled.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    assert float(warmed.optimizer.learning_rate) == np.float32(RATE)


def test_micro_batches_are_no_steps():
    model = fit(1, RATE, warmup, accumulate=2)  # 4 steps
    np.testing.assert_allclose(float(model.optimizer.learning_rate), RATE * 4 / NUM_STEPS)


def test_leaves_the_rate_alone_afterwards():
    def halve(batch, logs=None):
        if batch == NUM_STEPS:
            halved.append(calls[0].model.optimizer.learning_rate)
            calls[0].model.optimizer.learning_rate = RATE / 2

    halved = []
    calls = [keras.callbacks.LambdaCallback(on_train_batch_end=halve), *warmup()]
    model = fit(1, RATE, lambda: calls)
    assert len(halved) == 1
    assert float(model.optimizer.learning_rate) == np.float32(RATE / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 3), r"learning_rate to be a number above 0, and finite\. Received: 0\.0"),
        ((0.1, 0), r"num_steps to be an int from 1 on\. Received: 0"),
        ((0.1, 2.0), r"num_steps to be an int from 1 on\. Received: 2\.0"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tf_adasum.callbacks.LearningRateWarmup(*arguments)


def test_numbers_of_numpy_are_numbers():
    steps = tf_adasum.callbacks.LearningRateWarmup(np.float32(0.5), np.int64(3)).num_steps
    assert steps == 3 and isinstance(steps, int)


def test_a_model_without_a_compiled_optimizer_is_refused():
    model = Gan()
    model.compile(keras.optimizers.SGD(), keras.optimizers.SGD())
    model.optimizer = None
    x, y = examples(8)
    with pytest.raises(
        RuntimeError, match=r"Expected a model that is compiled.*LearningRateWarmup"
    ):
        model.fit(x, y, batch_size=8, verbose=0, callbacks=warmup())


def test_a_schedule_is_refused():
    with pytest.raises(TypeError, match="LearningRateSchedule"):
        fit(1, Formula(), warmup)
