"""ZeroOneAdam: the reference's weights, of every replica, step by step; what it refuses."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.reference import onebit
from tests.reference.codecs import sign
from tests.training.momentum_steps import REDUCTIONS, SIGN, drawn_gradients, made, trained
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.variables import local_copies
from tf_adasum.optimizers import ZeroOneAdam

RATE, FREEZE_STEP = 0.01, 7
# Steps 1 apart twice, then 2 apart; rounds of 1, 2 and then 4.
SETTINGS = {"variance_interval": 2, "doubling_steps": 2, "most_local_steps": 4}
VARIANCE_STEPS, ROUNDS = (0, 1, 2, 4, 6), (1, 1, 2, 4, 4)
NUM_STEPS = FREEZE_STEP + sum(ROUNDS)


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_are_those_of_the_reference(num_local, reduction):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    settings = {**SETTINGS, "compression": SIGN, "reduction": reduction}
    optimizer, variable = made(replicas, lambda: ZeroOneAdam(RATE, FREEZE_STEP, **settings))
    # One replica has nothing to send, and so loses nothing.
    q = sign.q if number > 1 else lambda x: x
    expected = onebit.ZeroOneAdam(
        variable.numpy(),
        RATE,
        FREEZE_STEP,
        (REDUCTIONS[reduction], q),
        (number, world().size),
        variance_steps=VARIANCE_STEPS,
        # It has no peers to meet either.
        rounds=ROUNDS if number > 1 else (1,) * sum(ROUNDS),
    )
    gradients = drawn_gradients(NUM_STEPS, number)

    def of_replicas():
        return [copy.numpy() for copy in local_copies(variable)]

    first = world().rank * num_local
    steps = trained(optimizer, replicas, variable, gradients, of_replicas)
    for step, weights in enumerate(steps):
        expected.step(list(gradients[step]))
        for mine, theirs in zip(weights, expected.weights[first:], strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=5e-5, err_msg=f"step {step}")
    assert_equal_on_ranks([variable])


@pytest.mark.parametrize("num_local", LOCAL)
def test_steps_of_rate_0_move_nothing_and_later_ones_go_on(num_local):
    """In rounds of one step and of two."""
    replicas = strategy(num_local)
    optimizer, variable = made(replicas, lambda: ZeroOneAdam(RATE, FREEZE_STEP, **SETTINGS))
    gradients = drawn_gradients(FREEZE_STEP + 10, replicas.num_replicas_in_sync)
    trained(optimizer, replicas, variable, gradients[:FREEZE_STEP])
    optimizer.learning_rate = 0.0
    before = variable.numpy()
    for weights in trained(optimizer, replicas, variable, gradients[FREEZE_STEP:-4]):
        np.testing.assert_array_equal(weights, before)
    optimizer.learning_rate = RATE
    weights = trained(optimizer, replicas, variable, gradients[-4:])[-1]
    common = np.sign(gradients.mean(axis=(0, 1)))
    assert np.mean(np.sign(before - weights) == common) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL)
def test_it_trains_in_fit_and_is_saved(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(1)
        model = small_model()
        model.compile(ZeroOneAdam(0.02, 30, doubling_steps=10, compression=SIGN), loss="mse")
    batch = 8 * replicas.num_replicas_in_sync
    x, y = examples(8 * batch)
    # 30 steps, 10 rounds of 1, 5 of 2, 3 of 4, and 3 steps: fit ends in the midst of a round.
    fit = {"batch_size": batch, "shuffle": False, "verbose": 0}
    losses = model.fit(x, y, epochs=8, **fit).history["loss"]
    model.fit(x[:batch], y[:batch], **fit)
    assert losses[-1] < 0.7 * losses[0]
    assert_equal_on_ranks(model.trainable_variables)
    config = keras.optimizers.serialize(model.optimizer)
    again = keras.optimizers.deserialize(config)
    assert type(again) is ZeroOneAdam and again.compression == SIGN
    assert keras.optimizers.serialize(again) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variance_interval": 0}, "variance_interval to be an int from 1"),
        ({"doubling_steps": 0}, "doubling_steps to be an int from 1"),
        ({"most_local_steps": 6}, "most_local_steps to be a power of two. Received: 6"),
        ({"use_ema": True}, "Received: use_ema=True for 'zero_one_adam"),
    ],
)
def test_bad_settings_give_one_sentence(settings, message):
    with pytest.raises(ValueError) as raised:
        ZeroOneAdam(**settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
