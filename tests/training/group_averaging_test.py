"""wrap(sync=GroupAveraging(...)): groups that change, and nobody who waits for a late rank.

The reference keeps N plain models apart and has them meet in the groups of tests/reference, in
float64.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum
from tests.reference import adasum, mean
from tests.training.comparison import PER_REPLICA, check_fit, compiled, compiled_under
from tests.training.linear_model import held_optimizers
from tests.training.reference_training import Recipe
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)
from tests.training.resumed import STEPS, check_resumes
from tf_adasum.collectives.communicator import world

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
REFERENCES = {"adasum": adasum.reduce, "mean": mean.reduce}


def momentum(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


def groups(**settings):
    return {"sync": tf_adasum.sync.GroupAveraging(**settings)}


@local_replicas
@pytest.mark.parametrize("reduction", REFERENCES)
@pytest.mark.parametrize(("group_size", "sync_every"), [(2, 4), (4, 3)])
def test_fit_where_groups_wait(group_size, sync_every, reduction, num_local):
    replicas = strategy(num_local, reductions=[(".*", reduction)])
    number = replicas.num_replicas_in_sync
    settings = groups(group_size=group_size, sync_every=sync_every, wait=True)
    model = compiled_under(replicas, momentum, "delta", settings=settings)
    recipe = Recipe(
        small_model,
        momentum,
        "delta",
        number,
        num_local,
        steps_per_sync=sync_every,
        group_size=group_size,
        combine=REFERENCES[reduction],
    )
    check_fit(model, recipe)


class HeldBack(keras.callbacks.Callback):
    """Rank 0 takes step number 1 only when all others have taken step number `last`."""

    stops_nothing = True  # or ranks would ask after each batch whether one stops

    def __init__(self, last: int):
        super().__init__()
        self._last = last
        self._ranks = MPI.COMM_WORLD.Dup()

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 1 and world().rank == 0:
            self._ranks.Barrier()

    def on_train_batch_end(self, batch, logs=None):
        if batch == self._last and world().rank != 0:
            self.model.get_weights()  # the step is over, and not only issued
            self._ranks.Barrier()


@pytest.mark.long
@local_replicas
@pytest.mark.parametrize("reduction", REFERENCES)
def test_nobody_waits_for_a_rank_that_is_late(reduction, num_local):
    """Were there a wait for rank 0 before all meet, this would never end."""
    replicas = strategy(num_local, reductions=[(".*", reduction)])
    settings = groups(group_size=2, sync_every=8)
    model = compiled_under(replicas, momentum, "delta", settings=settings)
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(16 * batch)  # of two periods, in each epoch
    before = model.evaluate(x, y, batch_size=batch, verbose=0)
    model.fit(
        x, y, batch_size=batch, shuffle=False, verbose=0, epochs=2, callbacks=[HeldBack(last=6)]
    )
    late = model.optimizer.lateness
    if world().size == 1:
        assert late.num_late == 0
    elif world().rank == 0:
        # At its second call the rounds of the others' steps 1 to 6 were over, and 7 may have begun.
        assert late.most_behind in (6, 7)
        assert late.num_late >= 6
    else:
        assert late.most_behind <= 7
    assert_equal_on_ranks(model.trainable_variables)
    assert model.evaluate(x, y, batch_size=batch, verbose=0) < before


@pytest.mark.long
def test_the_end_of_fit_brings_all_together():
    model, number = compiled(1, momentum, "delta", settings=groups(group_size=2, sync_every=5))
    batch = PER_REPLICA * number
    for num_steps in (1, 3, 5, 7):
        x, y = examples(num_steps * batch, seed=num_steps)
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        assert_equal_on_ranks(model.trainable_variables)
        assert np.isfinite(model.get_weights()[0]).all()


class Interrupted(Exception):
    """What ends `fit` on each rank by itself."""


class Interruption(keras.callbacks.Callback):
    """Ends `fit` behind a batch, another one on each rank."""

    stops_nothing = True

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1 + world().rank:
            raise Interrupted


@pytest.mark.long
@pytest.mark.parametrize("make_model", [small_model, held_optimizers])
def test_fit_after_one_that_ended_at_unlike_steps(make_model):
    """Ranks are in step again, in the rounds of groups and in the steps until all meet."""
    settings = groups(group_size=2, sync_every=10)
    model, number = compiled(1, momentum, "delta", make_model, settings=settings)
    initial = model.get_weights()
    batch = PER_REPLICA * number
    x, y = examples(9 * batch)
    with pytest.raises(Interrupted):
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[Interruption()])
    model.set_weights(initial)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[HeldBack(last=6)])
    assert_equal_on_ranks(model.trainable_variables)


def test_a_resumed_training_where_groups_wait():
    """Its process has counted no rounds; the first round's second step is to come."""
    check_resumes(
        (STEPS + 2,), 1, momentum, kind="arrays", **groups(group_size=2, sync_every=3, wait=True)
    )


class OwnLoop(keras.callbacks.Callback):
    """Goes through distributed data of its own when an epoch ends."""

    def __init__(self, strategy, data):
        super().__init__()
        self._strategy, self._data = strategy, data
        self.num_batches = 0

    def on_epoch_end(self, epoch, logs=None):
        for _ in self._strategy.experimental_distribute_dataset(self._data):
            self.num_batches += 1
            assert self.num_batches < 100


def test_only_the_data_of_fit_go_without_asking():
    replicas = strategy(1)
    model = compiled_under(replicas, momentum, "delta", settings=groups(group_size=2))
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(4 * batch)
    own = OwnLoop(replicas, tf.data.Dataset.from_tensor_slices(x).batch(batch))
    model.fit(x, y, batch_size=batch, verbose=0, callbacks=[own])
    assert own.num_batches == 4


@pytest.mark.long
@local_replicas
def test_data_that_are_distributed_already(num_local):
    """As many steps as without groups: Keras counts the batches of a replica."""
    steps = []
    for settings in (None, groups(group_size=2, sync_every=3)):
        replicas = strategy(num_local)
        model = compiled_under(replicas, momentum, "delta", settings=settings)
        x, y = examples(8 * PER_REPLICA)

        def rows(context, x=x, y=y):
            del context
            return tf.data.Dataset.from_tensor_slices((x, y)).batch(PER_REPLICA)

        model.fit(replicas.distribute_datasets_from_function(rows), verbose=0)
        steps.append(int(model.optimizer.iterations.numpy()))
    assert steps[0] == steps[1]


def test_a_sum_is_refused():
    replicas = strategy(1, reductions=[(".*", "sum")])
    model = compiled_under(replicas, momentum, "delta", settings=groups(group_size=2))
    x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
    if world().size == 1:
        model.fit(x, y, verbose=0)  # nothing is combined
        return
    with pytest.raises(ValueError, match=r"by adasum or mean.*Received: the reduction 'sum'"):
        model.fit(x, y, batch_size=len(x), verbose=0)
