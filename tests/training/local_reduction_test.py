"""`fit` with a reduction of its own inside every host: four ranks, two on each of two hosts."""

from __future__ import annotations

import os

# Before the world is made: ranks with equal hosts are beside each other.
os.environ["TF_ADASUM_HOST"] = f"host{int(os.environ['OMPI_COMM_WORLD_RANK']) // 2}"

import keras
import pytest

import tf_adasum
from tests.reference import hierarchy
from tests.training.comparison import check_fit, compiled_under
from tests.training.reference_training import Recipe
from tests.training.replicas import small_model, strategy

NUM_LEAVES = 4


def _momentum():
    return keras.optimizers.SGD(0.05, momentum=0.9)


def _check(mode, reference_mode, combine=None, **options):
    replicas = strategy(1, **options)
    assert replicas.num_replicas_in_sync == NUM_LEAVES
    model = compiled_under(replicas, _momentum, mode)
    recipe = Recipe(small_model, _momentum, reference_mode, NUM_LEAVES, 1)
    check_fit(model, recipe._replace(combine=combine) if combine else recipe)


def _over_two_hosts(local):
    def combine(leaves):
        half = len(leaves) // 2
        return hierarchy.reduce([leaves[:half], leaves[half:]], local)

    return combine


def test_hosts():
    assert tf_adasum.world().hosts == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("mode", "local"), [("delta", "mean"), ("gradient", "sum")])
def test_fit(mode, local):
    _check(mode, mode, _over_two_hosts(local), local_reduction=local)


def test_rules_of_mean_stay_flat():
    """A sum inside the hosts would give twice the mean, were it taken for these variables."""
    _check("gradient", "plain", reductions=[(".", "mean")], local_reduction="sum")


def test_unknown_local_reduction():
    with pytest.raises(ValueError, match=r"among .*'adasum'.* Received: 'median'"):
        strategy(1, local_reduction="median")
