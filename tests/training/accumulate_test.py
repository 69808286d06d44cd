"""wrap(accumulate=K): a replica combines K micro-batches as K ranks would, then all replicas meet.

The reference combines with NumPy in float64: the K gradients of each replica in the tree of K
leaves, then the N replicas.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.comparison import (
    MOVING_AVERAGE,
    PER_REPLICA,
    TOLERANCE,
    check_fit,
    check_moving_average,
    check_overflow_is_skipped,
    compiled,
    loss_scaled,
)
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import LOCAL, examples, small_model, strategy

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
MOST_LOCAL = LOCAL[-1]


def sgd(**options):
    return keras.optimizers.SGD(0.05, **options)


def adam(**options):
    return keras.optimizers.Adam(0.01, **options)


@local_replicas
@pytest.mark.parametrize(
    ("make", "mode", "count", "steps"),
    [(sgd, "delta", 4, 4), (adam, "delta", 3, 4), (adam, "gradient", 2, 1)],
)
def test_fit(make, mode, count, steps, num_local):
    """K a power of two and not, K dividing the steps of an execution and not."""
    settings = {"accumulate": count}
    model, number = compiled(num_local, make, mode, settings=settings, steps_per_execution=steps)
    recipe = Recipe(small_model, make, mode, number, num_local, **settings, accumulate_by="adasum")
    check_fit(model, recipe)


def test_checks_of_numerics_find_nothing():
    """TensorFlow's refuse also a constant of a graph that is NaN, be it used or not."""
    tf.debugging.enable_check_numerics()
    try:
        model, number = compiled(1, sgd, "delta", settings={"accumulate": 2})
        model.fit(*examples(2 * PER_REPLICA * number), PER_REPLICA * number, verbose=0)
        assert int(model.optimizer.iterations) == 1
    finally:
        tf.debugging.disable_check_numerics()


@pytest.mark.long
def test_fit_equals_more_ranks():
    """With N and K powers of two, N replicas with K micro-batches are N * K replicas with one."""
    count, rate = 4, 0.1
    model, number = compiled(
        MOST_LOCAL, lambda: keras.optimizers.SGD(rate), "delta", settings={"accumulate": count}
    )
    start = model.get_weights()
    x, y = examples(count * PER_REPLICA * number)
    model.fit(x, y, batch_size=PER_REPLICA * number, shuffle=False, verbose=0)
    batches = [np.split(part, count) for part in (x, y)]
    recipe = Recipe(small_model, sgd, "delta", number, MOST_LOCAL)
    plain = ReferenceTraining(recipe, start)
    leaves = [
        plain.gradients(*batch, replica) for replica in range(number) for batch in zip(*batches)
    ]
    if number == 3:  # folds: a tree of three over trees of four
        leaves = [
            [adasum.reduce(g) for g in zip(*leaves[count * r : count * (r + 1)])] for r in range(3)
        ]
    for got, old, gradients in zip(model.get_weights(), start, zip(*leaves)):
        np.testing.assert_allclose(
            got, old - rate * adasum.reduce(gradients), rtol=0, atol=TOLERANCE
        )


@pytest.mark.long
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_clipping_and_weight_decay_come_with_the_step(mode):
    rate, decay, norm = 0.05, 0.2, 0.3
    model, number = compiled(
        MOST_LOCAL, lambda: sgd(weight_decay=decay, clipnorm=norm), mode, settings={"accumulate": 4}
    )
    recipe = Recipe(small_model, sgd, mode, number, MOST_LOCAL, rate * decay, norm, 4, "adasum")
    check_fit(model, recipe)


@pytest.mark.long
def test_moving_average_moves_with_the_step():
    """As K times as many ranks would move it; it overwrites every second step."""
    settings = {"accumulate": 2}
    model, number = compiled(MOST_LOCAL, lambda: sgd(**MOVING_AVERAGE), "delta", settings=settings)
    recipe = Recipe(
        small_model, sgd, "delta", number, MOST_LOCAL, **settings, accumulate_by="adasum"
    )
    check_moving_average(model, recipe)


@pytest.mark.long
def test_overflow_skips_one_micro_batch_everywhere():
    """inf on one replica: no replica counts this call, and the next takes its place."""
    model, number = compiled(
        MOST_LOCAL,
        lambda: loss_scaled(sgd()),
        "gradient",
        settings={"accumulate": 2},
    )
    recipe = Recipe(
        small_model, sgd, "gradient", number, MOST_LOCAL, accumulate=2, accumulate_by="adasum"
    )
    check_overflow_is_skipped(model, recipe)
    assert int(model.optimizer.iterations.numpy()) == 1


@pytest.mark.long
def test_rules_apply_to_micro_batches():
    """A variable whose rule is mean gets the mean over replicas and micro-batches; likewise sum."""
    rate, count = 0.05, 3
    rules = [("first/kernel", "mean"), ("second/kernel", "sum")]
    replicas = strategy(MOST_LOCAL, reductions=rules)
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(rate), "gradient", accumulate=count)
        model.compile(optimizer=optimizer, loss="mse")
    number = replicas.num_replicas_in_sync
    start = model.get_weights()
    x, y = examples(count * PER_REPLICA * number)
    model.fit(x, y, batch_size=PER_REPLICA * number, shuffle=False, verbose=0)
    plain = ReferenceTraining(Recipe(small_model, sgd, "delta", number, MOST_LOCAL), start)
    batches = list(zip(np.split(x, count), np.split(y, count)))
    leaves = [plain.gradients(*b, replica) for replica in range(number) for b in batches]
    for place, combine in ((0, np.mean), (2, np.sum)):
        total = combine([gradients[place] for gradients in leaves], axis=0)
        got = model.get_weights()[place]
        np.testing.assert_allclose(got, start[place] - rate * total, rtol=0, atol=TOLERANCE)
