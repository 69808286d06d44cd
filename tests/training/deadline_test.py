"""wrap(sync=Deadline(...)): what is late is left out of a step, and goes into a later one.

What is left out where messages are late is told in C++ (//tests/cc:deadline_allreduce_test); here,
what becomes of it in a training.
"""

from __future__ import annotations

import keras
import pytest

import tf_adasum
from tests.reference import adasum, mean
from tests.training.comparison import check_fit, compiled_under
from tests.training.reference_training import Recipe
from tests.training.replicas import (
    LOCAL,
    small_model,
    strategy,
)

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
REFERENCES = {"adasum": adasum.reduce, "mean": mean.reduce}
AMPLE = 1e6


def momentum(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


def deadline(milliseconds=AMPLE, max_left_out=0.01):
    return {"sync": tf_adasum.sync.Deadline(milliseconds, max_left_out)}


@local_replicas
@pytest.mark.parametrize("reduction", REFERENCES)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
# Time enough; or none at all, where all that is late is waited for.
@pytest.mark.parametrize("settings", [deadline(), deadline(0, 0)])
def test_fit_where_nothing_is_left_out(settings, mode, reduction, num_local):
    replicas = strategy(num_local, reductions=[(".*", reduction)])
    model = compiled_under(replicas, momentum, mode, settings=settings)
    number = replicas.num_replicas_in_sync
    combine = REFERENCES[reduction]
    check_fit(model, Recipe(small_model, momentum, mode, number, num_local, combine=combine))
    assert model.optimizer.left_out == (0, 0.0, 0.0)
