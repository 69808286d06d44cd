"""SketchedSGD: sketches find what is heavy, the reference's weights, and what it refuses."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tests.reference import sketched
from tests.training.momentum_steps import (
    NUM_ELEMENTS,
    REDUCTIONS,
    drawn_gradients,
    made,
    trained,
)
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy
from tf_adasum.collectives.compression.count_sketch import CountSketch
from tf_adasum.optimizers import SketchedSGD

RATE, MOMENTUM, NUM_STEPS, ROWS, COLUMNS, COUNT = 0.05, 0.9, 12, 3, 13, 11


def test_tables_are_the_references_and_add_up():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(2, 1000))
    sketch = CountSketch(1000, ROWS, 50, seed=(3, 4))
    factors = sketch.factors().numpy()
    of_both = [sketch.table(tf.constant(each)).numpy() for each in (x, y, x + y)]
    np.testing.assert_allclose(of_both[0], sketched.table(x, 50, factors), atol=1e-12)
    np.testing.assert_allclose(of_both[0] + of_both[1], of_both[2], atol=1e-12)
    heavy = sketch.heaviest(tf.constant(of_both[0]), 20).numpy()
    estimates = np.abs(sketched.estimates(of_both[0], 1000, factors))
    np.testing.assert_allclose(estimates[heavy], np.sort(estimates)[::-1][:20], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_of_planted_values_nine_in_ten_are_found(seed):
    """By as many candidates as are looked at, of a twentieth of the bytes."""
    n, count = 50_000, 50
    x, places = sketched.planted(seed, n, count)
    sketch = CountSketch(n, 5, n // 125)
    assert n / (sketch.rows * sketch.columns + 4 * count) > 20
    found = sketch.heaviest(sketch.table(tf.constant(x)), 4 * count).numpy()
    assert len(np.intersect1d(found, places)) >= 0.9 * count


def factors_of_step(step):
    """Those of the hashes that the optimizer draws."""
    return CountSketch(NUM_ELEMENTS, ROWS, COLUMNS, seed=(step, 0)).factors().numpy()


def _share_never_sent(seed_of_step):
    """Of 2000 values that add up until they are sent, 20 in each of 400 steps."""
    gradient = np.random.default_rng(0).normal(size=2000)
    seed = tf.Variable([0, 0])
    sketch = CountSketch(2000, 5, 16, seed)

    @tf.function
    def heaviest(waiting):
        return sketch.heaviest(sketch.table(waiting), 20)

    waiting, is_sent = np.zeros(2000), np.zeros(2000, bool)
    for step in range(400):
        waiting += gradient
        seed.assign(seed_of_step(step))
        sent = heaviest(waiting).numpy()
        waiting[sent], is_sent[sent] = 0, True
    return 1 - np.mean(is_sent)


@pytest.mark.long
def test_no_place_is_hidden_for_ever_under_hashes_that_change():
    assert _share_never_sent(lambda step: (step, 0)) < 0.02
    assert _share_never_sent(lambda step: (0, 0)) > 0.5


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_are_those_of_the_reference(num_local, reduction):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    settings = {
        "fraction": (COUNT - 0.5) / NUM_ELEMENTS,
        "sketch_fraction": ROWS * (COLUMNS + 0.5) / NUM_ELEMENTS,
        "rows": ROWS,
        "reduction": reduction,
        "least_elements": 0,
    }
    optimizer, variable = made(replicas, lambda: SketchedSGD(RATE, MOMENTUM, **settings))
    sgd, sizes = (RATE, MOMENTUM), (COUNT, COLUMNS)
    reduce = REDUCTIONS[reduction]
    reference = sketched.SketchedSGD(variable.numpy(), sgd, sizes, factors_of_step, reduce, number)
    gradients = drawn_gradients(NUM_STEPS, number)
    for step, weight in enumerate(trained(optimizer, replicas, variable, gradients)):
        if number == 1:  # nothing is exchanged: SGD with momentum
            reference.sums = MOMENTUM * reference.sums + gradients[step]
            reference.weight -= RATE * reference.sums[0]
        else:
            reference.step(gradients[step])
        np.testing.assert_allclose(weight, reference.weight, rtol=0, atol=1e-4, err_msg=f"{step}")
    assert_equal_on_ranks([variable])


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL)
def test_it_trains_in_fit_and_is_saved(num_local):
    replicas = strategy(num_local)
    if adasum.rank() == 0:
        SketchedSGD(0.04)  # which Keras numbers: later ones have other names than elsewhere
    with replicas.scope():
        keras.utils.set_random_seed(1)
        model = small_model()
        optimizer = SketchedSGD(0.04, 0.5, fraction=0.25, sketch_fraction=0.5, least_elements=16)
        model.compile(optimizer, loss="mse")
    batch = 8 * replicas.num_replicas_in_sync
    x, y = examples(8 * batch)
    history = model.fit(x, y, batch_size=batch, epochs=8, shuffle=False, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert_equal_on_ranks(model.trainable_variables)
    config = keras.optimizers.serialize(model.optimizer)
    again = keras.optimizers.deserialize(config)
    assert type(again) is SketchedSGD and keras.optimizers.serialize(again) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fraction": 0}, "above 0 and at most 1. Received: 0"),
        ({"sketch_fraction": 1.5}, "above 0 and at most 1. Received: 1.5"),
        ({"rows": 0}, "rows to be an int from 1"),
        ({"momentum": 1}, "momentum to be a number from 0 to below 1. Received: 1"),
        ({"momentum": "0.9"}, "momentum to be a number from 0 to below 1. Received: '0.9'"),
        ({"reduction": "sum"}, "a reduction among ['mean', 'adasum']"),
    ],
)
def test_bad_settings_give_one_sentence(settings, message):
    with pytest.raises((TypeError, ValueError)) as raised:
        SketchedSGD(**settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_sketch_without_columns_is_told():
    variable = keras.Variable(np.zeros(1000, np.float32))
    with pytest.raises(ValueError, match="at least 5 values for a variable of 1000"):
        SketchedSGD(sketch_fraction=0.004).sketch_of(variable)
