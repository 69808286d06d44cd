"""advise on real ranks: its numbers are those of the gradients, and it leaves no trace."""

from __future__ import annotations

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.advise.refusal import NoAdviceError
from tf_adasum.distribute.own_variables import metric_variables, state_variables
from tf_adasum.distribute.variables import local_copies

BATCH = 8
RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.standard_normal((128, 6)).astype(np.float32)
TARGETS = RANDOM.standard_normal((128, 1)).astype(np.float32)


def _trained(strategy, layers=None):
    """A model with all that may change: statistics, random states, slots, metrics."""
    keras.utils.set_random_seed(5)
    with strategy.scope():
        model = keras.Sequential(
            layers
            or [
                keras.layers.Dense(16, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.2),
                keras.layers.Dense(1),
            ]
        )
        model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    return model


def _data(strategy):
    number = BATCH * strategy.num_replicas_in_sync
    return tf.data.Dataset.from_tensor_slices((IMAGES, TARGETS)).batch(number)


def _values(model):
    listed = [*state_variables(model), *metric_variables(model)]
    return [copy.numpy() for each in listed for copy in local_copies(each.variable)]


def test_training_goes_on_as_if_nothing_had_been_measured():
    strategy = adasum.AdasumStrategy()
    plain, advised = _trained(strategy), _trained(strategy)
    for model in (plain, advised):
        keras.utils.set_random_seed(6)
        model.fit(_data(strategy), verbose=0, epochs=2)
    before, history = _values(advised), advised.history
    advice = adasum.advise(advised, _data(strategy), budget_seconds=0.1)
    assert advice.measured.batch == BATCH
    assert advised.history is history
    assert len(before) > 20
    for value, kept in zip(_values(advised), before, strict=True):
        np.testing.assert_array_equal(value, kept)
    for model in (plain, advised):
        model.fit(_data(strategy), verbose=0, epochs=2)
    for value, expected in zip(_values(advised), _values(plain), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_gradients_are_those_of_the_examples():
    """Of a linear model, against float64: every rank takes its rows of each batch."""
    strategy = adasum.AdasumStrategy()
    layer = keras.layers.Dense(1, use_bias=False)
    model = _trained(strategy, layers=[keras.Input((6,)), layer])
    weights = layer.kernel.numpy().astype(np.float64)
    advice = adasum.advise(model, _data(strategy), budget_seconds=30)
    rows = BATCH * strategy.num_replicas_in_sync
    batches = range(min(8, 128 // rows))
    norms = {2: [], "all": []}
    for rank in range(adasum.size()):
        small = []
        for batch in batches:
            first = batch * rows + rank * BATCH
            for part in range(first, first + BATCH, 2):
                x, y = (each[part : part + 2].astype(np.float64) for each in (IMAGES, TARGETS))
                small.append(2 * x.T @ (x @ weights - y) / 2)
        norms[2].append(np.mean([(each**2).sum() for each in small]))
        norms["all"].append((np.mean(small, axis=0) ** 2).sum())
    few, many = np.mean(norms[2]), np.mean(norms["all"])
    size = BATCH * len(batches)
    squared = (size * many - 2 * few) / (size - 2)
    trace = (few - many) / (1 / 2 - 1 / size)
    assert advice.gradients.noise.squared_gradient.sum() == pytest.approx(squared, rel=1e-3)
    assert advice.gradients.noise.trace.sum() == pytest.approx(trace, rel=1e-3)
    assert set(advice.gradients.scale_by_batch) == {2 * 2**level for level in range(5)}


def test_table(monkeypatch):
    """Of ranks that are a host each, so that the network between them is measured."""
    monkeypatch.setenv("TF_ADASUM_HOST", f"host {adasum.rank()}")
    hosts = adasum.world().split(0, name="hosts")
    strategy = adasum.AdasumStrategy(communicator=hosts)
    model = _trained(strategy)
    advice = adasum.advise(model, _data(strategy), budget_seconds=0.1)
    assert model.built
    assert int(model.optimizer.iterations) == 0
    assert all((value == 0).all() for value in _values(model)[-4:])  # metrics
    world = adasum.size()
    assert [row.ranks for row in advice.rows] == [2**level for level in range(11)]
    assert advice.measured.ranks == world
    assert (advice.measured.together_seconds is None) == (world == 1)
    lines = str(advice).splitlines()
    assert lines[-13].split()[0] == "ranks"
    assert lines[-1].split()[0] == "1,024"
    assert advice.measured.hosts == world
    assert f"measured on {world} rank" in str(advice)
    assert ("between hosts (assumed)" in str(advice)) == (world == 1)
    assert all(0 < row.efficiency <= 1 for row in advice.rows)
    for row in advice.rows[1:]:
        overhead = row.step_seconds / advice.rows[0].step_seconds - 1
        shared = (1 + overhead) / (1 + row.ranks * overhead)
        assert row.efficiency_of_fixed_batch == pytest.approx(shared)
    if world > 1:
        together = advice.measured.together_seconds
        assert advice.rows[1].step_seconds >= together * 0.999


def test_refusals_are_one_sentence_on_all_ranks():
    strategy = adasum.AdasumStrategy()
    with strategy.scope():
        raw = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    with pytest.raises(NoAdviceError, match=r"rank 0: Expected a compiled model\. .*compile"):
        adasum.advise(raw, _data(strategy))
    with pytest.raises(ValueError, match=r"Expected ranks to be an int from 1 .*Received: 0"):
        adasum.advise(raw, _data(strategy), ranks=[0])
    for seconds, error in ((0, ValueError), (float("nan"), ValueError), ("10", TypeError)):
        with pytest.raises(error, match=r"Expected budget_seconds to be a number above 0"):
            adasum.advise(raw, _data(strategy), budget_seconds=seconds)
    for hosts, error, line in (
        (
            {"gbit": 1},
            TypeError,
            "hosts to be a dict with any of ranks, gbits, round_us. Received:",
        ),
        ([1], TypeError, "hosts to be a dict"),
        (
            {"gbits": 0},
            ValueError,
            "hosts['gbits'] to be a number from 1e-06 to 1e+09. Received: 0",
        ),
        ({"gbits": "25"}, TypeError, "hosts['gbits'] to be a number"),
        ({"round_us": -1}, ValueError, "hosts['round_us'] to be a number from 0"),
        ({"round_us": float("nan")}, ValueError, "hosts['round_us'] to be a number from 0"),
        ({"ranks": 0}, ValueError, "hosts['ranks'] to be an int from 1"),
        ({"ranks": 1.5}, TypeError, "hosts['ranks'] to be an int from 1"),
    ):
        with pytest.raises(error, match=re.escape(f"Expected {line}")):
            adasum.advise(raw, _data(strategy), hosts=hosts)
    with pytest.raises(NoAdviceError, match=r"Expected a Keras model\. Received: int"):
        adasum.advise(7, _data(strategy))
    model = _trained(strategy)
    ranks = "1 rank" if adasum.size() == 1 else f"{adasum.size()} ranks"
    with pytest.raises(NoAdviceError, match=rf"examples for each of {ranks}\. .*no batch at all"):
        adasum.advise(model, _data(strategy).take(0))
    with pytest.raises(NoAdviceError, match=r"Expected data that fit takes\. Received: ValueErr"):
        adasum.advise(model, IMAGES, y=TARGETS[:3])
    if adasum.size() > 1:
        with pytest.raises(NoAdviceError, match="batches shorter than"):
            adasum.advise(model, IMAGES, y=TARGETS, batch_size=1)
