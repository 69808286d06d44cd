"""OneBitAdam and OneBitLamb: the references' weights, step by step; what they refuse."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import onebit
from tests.reference.codecs import sign
from tests.training.momentum_steps import REDUCTIONS, SIGN, drawn_gradients, made, trained
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.optimizers import CADA, OneBitAdam, OneBitLamb, ZeroOneAdam

RATE, FREEZE_STEP, NUM_STEPS = 0.01, 4, 10
OPTIMIZERS = {
    "adam": (OneBitAdam, onebit.OneBitAdam, keras.optimizers.Adam),
    "lamb": (OneBitLamb, onebit.OneBitLamb, keras.optimizers.Lamb),
}
optimizers = pytest.mark.parametrize("name", sorted(OPTIMIZERS))


@optimizers
@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_are_those_of_the_reference(num_local, reduction, name):
    own, reference, _ = OPTIMIZERS[name]
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    settings = {"freeze_step": FREEZE_STEP, "compression": SIGN, "reduction": reduction}
    optimizer, variable = made(replicas, lambda: own(RATE, **settings))
    reduce = REDUCTIONS[reduction]
    # One replica has nothing to send, and so loses nothing.
    q = sign.q if number > 1 else lambda x: x
    numbers = number, world().size
    expected = reference(variable.numpy(), RATE, FREEZE_STEP, (reduce, q), numbers)
    gradients = drawn_gradients(NUM_STEPS, number)
    for step, weight in enumerate(trained(optimizer, replicas, variable, gradients)):
        expected.step(list(gradients[step]))
        np.testing.assert_allclose(weight, expected.weight, rtol=0, atol=2e-5, err_msg=f"{step}")
    assert_equal_on_ranks([variable])


@optimizers
def test_before_the_freeze_it_is_keras_own(name):
    own, _, of_keras = OPTIMIZERS[name]
    replicas = strategy(1)
    gradients = drawn_gradients(NUM_STEPS, replicas.num_replicas_in_sync)
    ours, variable = made(replicas, lambda: own(RATE, freeze_step=100))
    kerass, other = made(
        replicas,
        lambda: tf_adasum.wrap(of_keras(RATE, epsilon=1e-7), mode="gradient"),
    )
    means = np.broadcast_to(gradients.mean(axis=1, keepdims=True), gradients.shape)
    for mine, theirs in zip(
        trained(ours, replicas, variable, gradients), trained(kerass, replicas, other, means)
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_local", LOCAL)
def test_what_never_had_a_gradient_stays(num_local):
    """Signs of a momentum of 0 are +, and there is no variance to divide by."""
    replicas = strategy(num_local)
    optimizer, variable = made(replicas, lambda: OneBitAdam(RATE, freeze_step=2, compression=SIGN))
    gradients = drawn_gradients(NUM_STEPS, replicas.num_replicas_in_sync)
    gradients[:, :, ::2] = 0
    before = variable.numpy().copy()
    *_, after = trained(optimizer, replicas, variable, gradients)
    np.testing.assert_array_equal(after[::2], before[::2])
    assert np.all(after[1::2] != before[1::2])


@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_a_gradient_that_is_no_number_shows(kind):
    """Before the freeze, where it is in the variance for good."""
    replicas = strategy(1)
    optimizer, variable = made(replicas, lambda: kind(RATE, freeze_step=2, compression=SIGN))
    gradients = drawn_gradients(4, replicas.num_replicas_in_sync)
    gradients[1, -1, 7] = np.nan
    for step, weights in enumerate(trained(optimizer, replicas, variable, gradients)):
        assert np.isnan(weights[7]) == (step > 0)


@pytest.mark.parametrize("make", [lambda: OneBitAdam(0.1, freeze_step=1), lambda: CADA(0.1)])
def test_rows_of_one_replica_are_added_up(make):
    """As rows of several replicas are: a row that comes twice is squared once."""
    rows = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 0, 1]), tf.constant([4, 2]))
    weights = []
    for gradient in (rows, tf.convert_to_tensor(rows)):
        replicas = strategy(1, communicator=world().split(world().rank))
        with replicas.scope():
            optimizer = make()
            variable = keras.Variable(np.ones((4, 2), np.float32), name="w")
        for _ in range(2):
            replicas.run(optimizer.apply, args=([gradient], [variable]))
        weights.append(variable.numpy())
    np.testing.assert_array_equal(*weights)


@pytest.mark.long
@optimizers
@pytest.mark.parametrize("num_local", LOCAL)
def test_it_trains_in_fit_and_is_saved(num_local, name):
    own, _, _ = OPTIMIZERS[name]
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(1)
        model = small_model()
        model.compile(own(0.02, freeze_step=10, compression=SIGN), loss="mse")
    batch = 8 * replicas.num_replicas_in_sync
    x, y = examples(8 * batch)
    history = model.fit(x, y, batch_size=batch, epochs=8, shuffle=False, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert_equal_on_ranks(model.trainable_variables)
    config = keras.optimizers.serialize(model.optimizer)
    again = keras.optimizers.deserialize(config)
    assert type(again) is own and again.compression == SIGN
    assert keras.optimizers.serialize(again) == config


def test_a_training_without_the_freeze_is_told():
    replicas = strategy(1)
    with replicas.scope():
        model = small_model()
        model.compile(OneBitAdam(freeze_step=100), loss="mse")
    x, y = examples(8 * replicas.num_replicas_in_sync)
    fit = functools.partial(model.fit, x, y, batch_size=len(x), verbose=0)
    if world().rank > 0:
        fit()
        return
    with pytest.warns(UserWarning, match="freeze_step=100 and 1 steps so far"):
        fit()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneBitAdam(freeze_step=0), "Expected freeze_step to be an int from 1"),
        (lambda: OneBitAdam(reduction="sum"), "a reduction among"),
        (lambda: OneBitAdam(beta_1=1.0), "beta_1 to be a number from 0 to below 1. Received: 1.0"),
        (lambda: OneBitAdam(beta_2="0.9"), "beta_2 to be a number from 0 to below 1"),
        (lambda: OneBitLamb(epsilon=0), "epsilon to be a number above 0, and finite. Received: 0"),
        (lambda: CADA(beta_1=float("nan")), "from 0 to below 1. Received: nan"),
        (lambda: CADA(epsilon="small"), "epsilon to be a number above 0"),
        (lambda: OneBitAdam(compression="sign"), "Received: 'sign'"),
        (lambda: OneBitLamb(coefficient_beta=1), "coefficient_beta to be a number from 0"),
        (lambda: OneBitLamb(most_change=0), "most_change to be a number above 0 and below 1"),
        (lambda: tf_adasum.wrap(OneBitAdam()), "wrapped already"),
    ],
)
def test_bad_settings_give_one_sentence(make, message):
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@optimizers
def test_biases_are_corrected_alike_in_bfloat16(name):
    """In bfloat16 b2 is 1, so that 1 - b2^t is 0: the weights stayed where they were."""
    own, _, _ = OPTIMIZERS[name]
    scales = []
    for dtype in ("float32", "bfloat16"):
        with strategy(1).scope():
            variable = keras.Variable(np.full(8, 0.5), dtype=dtype)
            optimizer = own(RATE)
            optimizer.build([variable])
            scales.append(float(optimizer.scale(variable.dtype)))
    np.testing.assert_allclose(scales[1], scales[0], rtol=1e-2)
