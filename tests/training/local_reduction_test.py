"""`fit` with a reduction of its own inside every host: four ranks, two on each of two hosts."""

from __future__ import annotations

import os

from adasumrun import job

# Before the world is made: ranks with equal hosts are beside each other.
os.environ["TF_ADASUM_HOST"] = f"host{int(job.rank()) // 2}"

import keras
import numpy as np
import pytest

import tf_adasum
from tests.reference import hierarchy
from tests.training.comparison import check_fit, compiled_under
from tests.training.reference_training import Recipe
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.optimizers import OneBitAdam, SketchedSGD, ZeroOneAdam

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


@pytest.mark.parametrize(("rows", "local"), [(1, "mean"), (3, "mean"), (3, "sum")])
def test_ranks_without_rows_count_in_their_host(rows, local):
    """Of rows that are all the same: Adasum of hosts whose results are parallel is their mean."""
    x, y = (np.repeat(each, rows, axis=0) for each in examples(1))
    plain = small_model()
    replicas = strategy(1, local_reduction=local, batch_share=[1] * NUM_LEAVES)
    model = compiled_under(replicas, lambda: keras.optimizers.SGD(0.1), "gradient")
    plain.set_weights(before := model.get_weights())
    plain.compile(keras.optimizers.SGD(0.1), loss="mse")
    for each in (plain, model):
        each.fit(x, y, batch_size=NUM_LEAVES, shuffle=False, verbose=0)
    factor = 2 if local == "sum" else 1
    for own, first, other in zip(model.get_weights(), before, plain.get_weights(), strict=True):
        np.testing.assert_allclose(own - first, factor * (other - first), rtol=0, atol=1e-6)


def test_rules_of_mean_stay_flat():
    """A sum inside the hosts would give twice the mean, were it taken for these variables."""
    _check("gradient", "plain", reductions=[(".", "mean")], local_reduction="sum")


def _built(replicas, make):
    with replicas.scope():
        make().build(small_model().trainable_variables)


def _wrapped(**settings):
    return lambda: tf_adasum.wrap(keras.optimizers.SGD(0.1), **settings)


SIGN = tf_adasum.compression.Sign(least_elements=0)
AT_ONCE = [
    (_wrapped(compression=SIGN), "compression=Sign"),
    (_wrapped(compression=SIGN, mode="gradient", accumulate=2), "compression=Sign"),
    (_wrapped(sync=tf_adasum.sync.Deadline()), "sync=Deadline"),
    (_wrapped(sync=tf_adasum.sync.GroupAveraging(2, 2)), "sync=GroupAveraging"),
    (lambda: OneBitAdam(reduction="adasum", compression=SIGN), "compression=Sign"),
    (lambda: ZeroOneAdam(reduction="adasum", compression=SIGN), "compression=Sign"),
    (lambda: SketchedSGD(reduction="adasum"), r"SketchedSGD\(reduction='adasum'\)"),
]


@pytest.mark.parametrize(("make", "setting"), AT_ONCE)
def test_what_combines_all_at_once_is_refused(make, setting):
    told = (
        rf"no local_reduction with {setting}, .*local_reduction='mean'\), and adasum for '.*first"
    )
    with pytest.raises(ValueError, match=told):
        _built(strategy(1, local_reduction="mean"), make)


def test_a_codec_of_a_rule_is_refused_too():
    rules = [("second/kernel", tf_adasum.Reduction("adasum", compression=SIGN))]
    with pytest.raises(ValueError, match=r"with compression=Sign, .*second/kernel"):
        _built(strategy(1, local_reduction="mean", reductions=rules), _wrapped())


def test_means_go_with_all():
    """A local reduction says nothing of them; nor is there a codec for small variables."""
    for make, _ in AT_ONCE[:4]:
        _built(strategy(1, local_reduction="mean", reductions=[(".", "mean")]), make)
    for make in (OneBitAdam, SketchedSGD, _wrapped(compression=tf_adasum.compression.Sign())):
        _built(strategy(1, local_reduction="mean"), make)


def test_unknown_local_reduction():
    with pytest.raises(ValueError, match=r"among .*'adasum'.* Received: 'median'"):
        strategy(1, local_reduction="median")
