"""wrap(sync=GroupAveraging(...)): groups that change, and nobody who waits for a late rank.

The reference keeps N plain models apart and has them meet in the groups of tests/reference, in
float64.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
from mpi4py import MPI

import tf_adasum
from tests.reference import adasum, mean
from tests.training.comparison import PER_REPLICA, check_fit, compiled, compiled_under
from tests.training.reference_training import Recipe
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)
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
    exchange = model.optimizer._adasum.exchange
    if world().size == 1:
        assert exchange.num_late == 0
    elif world().rank == 0:
        # At its second call the rounds of the others' steps 1 to 6 were over.
        assert exchange.most_behind == 6
        assert exchange.num_late >= 6
    else:
        assert exchange.most_behind <= 7
    assert_equal_on_ranks(model.trainable_variables)
    assert model.evaluate(x, y, batch_size=batch, verbose=0) < before


def test_the_end_of_fit_brings_all_together():
    model, number = compiled(1, momentum, "delta", settings=groups(group_size=2, sync_every=5))
    batch = PER_REPLICA * number
    for num_steps in (1, 3, 5, 7):
        x, y = examples(num_steps * batch, seed=num_steps)
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        assert_equal_on_ranks(model.trainable_variables)
        assert np.isfinite(model.get_weights()[0]).all()


def test_a_sum_is_refused():
    replicas = strategy(1, reductions=[(".*", "sum")])
    model = compiled_under(replicas, momentum, "delta", settings=groups(group_size=2))
    x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
    if world().size == 1:
        model.fit(x, y, verbose=0)  # nothing is combined
        return
    with pytest.raises(ValueError, match=r"by adasum or mean.*Received: the reduction 'sum'"):
        model.fit(x, y, batch_size=len(x), verbose=0)
