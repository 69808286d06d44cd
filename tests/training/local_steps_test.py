"""wrap(steps_per_sync=K): K steps of every replica by itself, then Adasum of what changed.

The reference keeps N plain models apart for K steps and combines their changes with NumPy in
float64; `fit` ends with such a combination.
"""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.comparison import (
    PER_REPLICA,
    TOLERANCE,
    check_fit,
    check_overflow_is_skipped,
    check_weights,
    compiled,
    compiled_under,
    loss_scaled,
    own_step,
)
from tests.training.linear_model import held_optimizers
from tests.training.reference_training import Recipe, ReferenceTraining
from tests.training.replicas import (
    LOCAL,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
    sub_batch,
)
from tf_adasum.collectives.communicator import world

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
MOST_LOCAL = LOCAL[-1]


def momentum(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


def recipe_of(number, num_local, **settings):
    return Recipe(small_model, momentum, "delta", number, num_local, **settings)


def spread(model):
    """The largest distance between two replicas in any weight."""
    copies = [
        np.stack([copy.numpy() for copy in variable.value.values])
        for variable in model.trainable_variables
    ]
    return max(np.ptp(np.concatenate(everywhere(copy)), axis=0).max() for copy in copies)


def test_a_round_that_was_longer_ends_at_once():
    """As after a backup of a training with a larger steps_per_sync."""
    model, number = compiled(MOST_LOCAL, momentum, "delta", settings={"steps_per_sync": 2})
    x, y = examples(PER_REPLICA * number)
    model.train_on_batch(x, y)
    (count,) = (each for each in model.optimizer.variables if "steps_since_sync" in each.path)
    count.assign(5)
    model.train_on_batch(x, y)
    assert int(count.numpy()) == 0
    assert spread(model) == 0


@local_replicas
@pytest.mark.parametrize(("count", "steps"), [(4, 1), (3, 4), (2, 8)])
def test_fit(count, steps, num_local):
    """Rounds of K steps that divide an execution, cross its end, and cross the end of fit."""
    settings = {"steps_per_sync": count}
    model, number = compiled(
        num_local, momentum, "delta", settings=settings, steps_per_execution=steps
    )
    check_fit(model, recipe_of(number, num_local, **settings))


def test_fit_with_optimizers_in_attributes(caplog):
    """As GANs have them: evaluated within a round, compared between rounds, ended with fit."""
    settings = {"steps_per_sync": 3}
    replicas = strategy(MOST_LOCAL, check_every=1)
    model = compiled_under(replicas, momentum, "delta", held_optimizers, settings=settings)
    number = replicas.num_replicas_in_sync
    recipe = Recipe(held_optimizers, momentum, "delta", number, MOST_LOCAL, **settings)
    reference = ReferenceTraining(recipe, model.get_weights())
    batch = PER_REPLICA * number
    x, y = examples(5 * batch)
    data = {"batch_size": batch, "validation_data": (x, y), "shuffle": False, "verbose": 0}
    model.fit(x, y, epochs=2, **data)
    for _ in range(2):
        reference.fit(x, y, 5)
    reference.synchronize()
    check_weights(model, reference.weights)
    assert [r.getMessage() for r in caplog.records if r.name == "tf_adasum"] == []


@pytest.mark.long
@local_replicas
def test_fit_where_ranks_take_unlike_numbers_of_steps(num_local):
    """CFedAvg's K_i: 1, 2, 3, 1, 2 steps of ranks 0 to 4 in rounds as long as the largest."""
    counts = [1 + rank % 3 for rank in range(world().size)]
    model, number = compiled(
        num_local, momentum, "delta", settings={"steps_per_sync": lambda rank: 1 + rank % 3}
    )
    assert model.optimizer.get_config()["adasum"]["steps_per_sync"] == (
        counts if world().size > 1 else 1
    )
    check_fit(model, recipe_of(number, num_local, steps_per_sync=counts))


def test_replicas_differ_within_a_round_and_meet_at_its_end():
    model, number = compiled(MOST_LOCAL, momentum, "delta", settings={"steps_per_sync": 3})
    spreads = []
    after_batch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: spreads.append(spread(model))
    )
    x, y = examples(7 * PER_REPLICA * number)
    batch = PER_REPLICA * number
    model.fit(x, y, batch_size=batch, shuffle=False, callbacks=[after_batch], verbose=0)
    together = [gap == 0.0 for gap in spreads]
    assert together == ([True] * 7 if number == 1 else [False, False, True] * 2 + [False])
    assert spread(model) == 0.0  # fit ended the third round


@pytest.mark.long
def test_synchronize_before_validation():
    """The way of docs/guarantees.md: a callback ends the round before the weights are looked at."""
    model, number = compiled(MOST_LOCAL, momentum, "delta", settings={"steps_per_sync": 4})
    reference = ReferenceTraining(
        recipe_of(number, MOST_LOCAL, steps_per_sync=4), model.get_weights()
    )
    seen = []

    def meet(logs):
        del logs
        model.optimizer.synchronize()
        seen.append(model.get_weights())

    batch = PER_REPLICA * number
    x, y = examples(6 * batch)
    model.fit(
        x,
        y,
        batch_size=batch,
        epochs=2,
        shuffle=False,
        validation_data=(x, y),
        callbacks=[keras.callbacks.LambdaCallback(on_test_begin=meet)],
        verbose=0,
    )
    for weights in seen:
        reference.fit(x, y, 6)
        reference.synchronize()
        for got, want in zip(weights, reference.weights):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    assert len(seen) == 2


@pytest.mark.long
def test_weight_decay_stays_outside_of_the_change():
    decay = 0.2
    settings = {"steps_per_sync": 4}
    model, number = compiled(
        MOST_LOCAL, lambda: momentum(weight_decay=decay), "delta", settings=settings
    )
    check_fit(model, recipe_of(number, MOST_LOCAL, decay=0.05 * decay, **settings))


@pytest.mark.long
def test_with_micro_batches():
    """Every step of a round combines two micro-batches."""
    settings = {"steps_per_sync": 2, "accumulate": 2}
    model, number = compiled(
        MOST_LOCAL, momentum, "delta", settings=settings, steps_per_execution=4
    )
    check_fit(model, recipe_of(number, MOST_LOCAL, accumulate_by="adasum", **settings))


@pytest.mark.long
def test_overflow_skips_a_local_step_everywhere():
    model, number = compiled(
        MOST_LOCAL,
        lambda: loss_scaled(momentum()),
        "delta",
        settings={"steps_per_sync": 2},
    )
    check_overflow_is_skipped(model, recipe_of(number, MOST_LOCAL, steps_per_sync=2))


@pytest.mark.long
def test_weights_set_between_fits_start_a_round():
    model, number = compiled(MOST_LOCAL, momentum, "delta", settings={"steps_per_sync": 4})
    batch = PER_REPLICA * number
    x, y = examples(5 * batch)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    fresh = [w + 1.0 for w in model.get_weights()]
    model.set_weights(fresh)
    model.optimizer.learning_rate = 0.0
    for variable in model.optimizer.variables:
        if "momentum" in variable.path:
            variable.assign(tf.zeros(variable.shape))
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    for got, want in zip(model.get_weights(), fresh):
        np.testing.assert_array_equal(got, want)


@pytest.mark.long
def test_saved_within_a_round_goes_on_from_rank_0():
    """All replicas get the weights of rank 0's first one and end its round together."""
    settings = {"steps_per_sync": 3}
    model, number = compiled(
        MOST_LOCAL, lambda: keras.optimizers.SGD(0.05), "delta", settings=settings
    )
    recipe = Recipe(
        small_model,
        lambda: keras.optimizers.SGD(0.05),
        "delta",
        number,
        MOST_LOCAL,
        **settings,
    )
    reference = ReferenceTraining(recipe, model.get_weights())
    path = shared_path("model.keras")

    def save(batch, logs):
        del logs
        if batch == 1 and world().rank == 0:
            model.save(path)

    batch = PER_REPLICA * number
    x, y = examples(3 * batch)
    after_batch = keras.callbacks.LambdaCallback(on_train_batch_end=save)
    rows = slice(0, 2 * batch)
    model.fit(x[rows], y[rows], batch_size=batch, shuffle=False, callbacks=[after_batch], verbose=0)
    barrier()
    with strategy(MOST_LOCAL).scope():
        loaded = keras.models.load_model(path)
    loaded.fit(x[2 * batch :], y[2 * batch :], batch_size=batch, shuffle=False, verbose=0)
    reference.fit(x[rows], y[rows], 2)
    reference.adopt_local_weights(replica=0)
    reference.step(x[2 * batch :], y[2 * batch :])
    check_weights(loaded, reference.weights)


def test_autograph_says_nothing_of_a_loop(caplog):
    """It transforms what a rank's only replica runs, and not what several do in threads."""
    replicas = strategy(1)
    with replicas.scope():
        model = small_model()
        optimizer = tf_adasum.wrap(momentum(), steps_per_sync=4)
    step = own_step(replicas, model, optimizer)
    x, y = examples(PER_REPLICA)
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        step((tf.constant(x), tf.constant(y)))
    assert [each.getMessage() for each in caplog.records if "AutoGraph" in each.getMessage()] == []


@pytest.mark.long
def test_own_training_loop():
    replicas = strategy(MOST_LOCAL)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        keras.utils.set_random_seed(7)
        model = small_model()
        optimizer = tf_adasum.wrap(momentum(), steps_per_sync=4)
    reference = ReferenceTraining(
        recipe_of(number, MOST_LOCAL, steps_per_sync=4), model.get_weights()
    )

    step = own_step(replicas, model, optimizer)
    x, y = examples(3 * PER_REPLICA * number)
    for rows in np.split(np.arange(len(x)), 3):
        # Not a dataset: tf.data may take a minute to destroy one that lived so briefly.
        step(
            [
                replicas.experimental_distribute_values_from_function(
                    lambda context, part=part: tf.constant(
                        sub_batch(part, context.replica_id_in_sync_group, MOST_LOCAL)
                    )
                )
                for part in (x[rows], y[rows])
            ]
        )
    optimizer.synchronize()
    reference.fit(x, y, 3)
    reference.synchronize()
    check_weights(model, reference.weights)
