"""wrap(compression=): what replicas exchange travels encoded, and replicas stay equal."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.comparison import PER_REPLICA, check_fit, compiled
from tests.training.reference_training import Recipe
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)
from tf_adasum import compression
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.own_variables import residual_variables
from tf_adasum.distribute.variables import local_copies
from tf_adasum.optimizers import CADA, OneBitAdam, SketchedSGD, ZeroOneAdam

momentum = functools.partial(keras.optimizers.SGD, 0.05, momentum=0.9)
CODECS = {
    "identity": compression.Identity(least_elements=0),
    "float16": compression.Float16(least_elements=0),
    "sign": compression.Sign(least_elements=0),
    "top_k": compression.TopK(0.2, least_elements=0),
    "quantized": compression.Quantized(4, least_elements=0),
}


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_without_loss_it_is_the_fit_of_the_reference(mode, num_local):
    settings = {"compression": CODECS["identity"]}
    model, number = compiled(num_local, momentum, mode, settings=settings)
    check_fit(model, Recipe(small_model, momentum, mode, number, num_local))


def _losses(mode, codec, num_local, **settings):
    """Of 60 steps of `fit`, and the model."""
    model, number = compiled(num_local, momentum, mode, settings={"compression": codec, **settings})
    x, y = examples(8 * PER_REPLICA * number)
    batch = PER_REPLICA * number
    history = model.fit(x, y, batch_size=batch, epochs=8, shuffle=False, verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
    return history.history["loss"], model


@functools.cache
def _plain_losses(mode, **settings):
    losses, _ = _losses(mode, None, LOCAL[-1], **settings)
    return losses


@pytest.mark.long
@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("name", ["float16", "sign", "top_k", "quantized"])
def test_it_trains_as_well_and_not_alike(name, mode):
    plain = _plain_losses(mode)
    encoded, model = _losses(mode, CODECS[name], LOCAL[-1])
    assert encoded[-1] <= 1.3 * plain[-1] < 0.8 * plain[0]
    residuals = [copy for each in residual_variables(model) for copy in local_copies(each.variable)]
    is_alone = model.distribute_strategy.num_replicas_in_sync == 1
    assert bool(residuals) != is_alone
    if not is_alone:
        assert encoded != plain
        assert any(np.any(residual.numpy()) for residual in residuals)


@pytest.mark.long
def test_local_steps_travel_encoded_too():
    """CFedAvg, with Adasum."""
    plain = _plain_losses("delta", steps_per_sync=4)
    encoded, _ = _losses("delta", CODECS["quantized"], LOCAL[-1], steps_per_sync=4)
    assert encoded[-1] <= 1.3 * plain[-1]


@pytest.mark.parametrize("kind", ["local steps", "0/1 Adam"])
def test_frozen_layers_stay_where_residuals_wait(kind):
    """What was kept back of their changes is not sent before they are trained again."""
    settings = {"compression": CODECS["sign"]}
    with strategy(LOCAL[-1]).scope():
        model = small_model()
        optimizer = (
            tf_adasum.wrap(momentum(), steps_per_sync=2, **settings)
            if kind == "local steps"
            else ZeroOneAdam(0.01, 2, doubling_steps=2, most_local_steps=2, **settings)
        )
        model.compile(optimizer, loss="mse")
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(7 * batch)  # one round ends with fit, eagerly
    model.fit(x, y, batch_size=batch, verbose=0)
    model.layers[0].trainable = False
    with model.distribute_strategy.scope():
        model.compile(optimizer, loss="mse")
    before = model.get_weights()
    model.fit(x, y, batch_size=batch, verbose=0)
    after = model.get_weights()
    for frozen in (0, 1):
        np.testing.assert_array_equal(after[frozen], before[frozen])
    assert np.all(after[2] != before[2])
    assert_equal_on_ranks(model.layers[1].trainable_variables)


@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_of_an_earlier_step_of_a_round_meet_too(num_local):
    """The step that ends the round has others; the third has no step of it."""
    replicas = strategy(num_local)
    with replicas.scope():
        weights = [keras.Variable(np.zeros(100, "float32")) for _ in range(3)]
        optimizer = tf_adasum.wrap(
            keras.optimizers.SGD(1.0), steps_per_sync=2, compression=CODECS["identity"]
        )
        optimizer.build(weights)

    def apply(weight):
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.cast(number + 1, tf.float32) * tf.ones([100])
        optimizer.apply([gradient / replicas.num_replicas_in_sync], [weight])

    for weight in weights[:2]:
        tf.function(functools.partial(replicas.run, apply, (weight,)))()
    own = np.arange(1, replicas.num_replicas_in_sync + 1)
    expected = -adasum.reduce([np.full(100, float(value)) for value in own])
    for weight, moved in zip(weights, (expected, expected, 0 * expected), strict=True):
        np.testing.assert_allclose(weight.numpy(), moved, rtol=1e-6)
    assert_equal_on_ranks(weights)


@pytest.mark.parametrize("num_local", LOCAL)
def test_own_loops_build_the_optimizer_in_their_first_step(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        weight = keras.Variable(np.zeros(100, "float32"))
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(1.0), compression=CODECS["sign"])

    def apply():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.cast(number + 1, tf.float32) * tf.ones([100])
        optimizer.apply([gradient / replicas.num_replicas_in_sync], [weight])

    step = tf.function(lambda: replicas.run(apply))
    for _ in range(2):
        step()
    # Signs of equal values are exact; Adasum of parallel vectors is their mean.
    own = np.arange(1, replicas.num_replicas_in_sync + 1)
    expected = adasum.reduce([np.full(100, float(value)) for value in own])
    np.testing.assert_allclose(weight.numpy(), -2 * expected, rtol=1e-6)
    assert_equal_on_ranks([weight])


def test_the_configuration_holds_the_codec():
    for codec in (compression.TopK(0.2), compression.Sign(least_elements=7)):
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), compression=codec)
        again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        assert again._adasum.exchange.encoding.compression == codec


def test_the_plan_says_how_variables_travel(capsys):
    by_rule = tf_adasum.Reduction("mean", compression=compression.TopK(0.5, least_elements=0))
    replicas = strategy(LOCAL[-1], reductions=[("second/kernel", by_rule)])
    with replicas.scope():
        model = small_model()
        sign = compression.Sign(least_elements=36)
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1), compression=sign), loss="mse")
    rows = replicas.reduction_plan(model)
    # The first kernel, of 36 values, is one part's; the second, of 72, is cut where there are
    # ranks for it, after 64 values.
    pairs = 36 if world().size == 1 else 32 + 4
    assert [(row.reduction, row.codec, row.num_bytes) for row in rows] == [
        ("adasum", "sign", 4 + 5),
        ("adasum", "", 4 * 9),
        ("mean", "top_k:0.5", 8 * pairs),
        ("adasum", "", 4 * 8),
    ]
    if world().rank == 0:
        header, _, first, *_ = capsys.readouterr().out.splitlines()
        assert header.split() == ["variable", "shape", "dtype", "reduction", "codec", "bytes"]
        assert first.split()[-2:] == ["sign", "9"]


@pytest.mark.parametrize(
    ("make", "reduction"),
    [
        (OneBitAdam, "mean"),
        (lambda: ZeroOneAdam(reduction="adasum"), "adasum"),
        (SketchedSGD, "mean"),
        (CADA, "mean"),
        (lambda: tf_adasum.wrap(momentum(), sync=tf_adasum.sync.Lazy()), "mean"),
        (lambda: tf_adasum.wrap(momentum()), "sum"),
    ],
)
def test_the_plan_has_the_reduction_that_is_the_optimizers_own(make, reduction):
    replicas = strategy(1, reductions=[(".", "sum")])
    with replicas.scope():
        model = small_model()
        model.compile(make(), loss="mse")
    reductions = [row.reduction for row in replicas.reduction_plan(model)]
    assert reductions == [reduction] * len(model.trainable_variables)


def test_the_plan_has_each_optimizer_of_several():
    replicas = strategy(1)
    with replicas.scope():
        model = small_model()
        model.one, model.other = tf_adasum.wrap(momentum()), OneBitAdam()
        model.one.build(model.trainable_variables[:2])
        model.other.build(model.trainable_variables[2:])
    reductions = [row.reduction for row in replicas.reduction_plan(model)]
    assert reductions == ["adasum"] * 2 + ["mean"] * 2


@pytest.mark.parametrize("by_rule", [True, False])
def test_what_is_no_weighted_sum_is_refused_before_the_first_step(by_rule):
    codec = compression.Sign(least_elements=0)
    rule = tf_adasum.Reduction("max", compression=codec) if by_rule else "max"
    replicas = strategy(LOCAL[-1], reductions=[("second/kernel", rule)])
    with replicas.scope():
        variables = small_model().trainable_variables
        optimizer = tf_adasum.wrap(momentum(), compression=None if by_rule else codec)
    told = (
        r"travels encoded\. Received: 'max' for '.*second/kernel', and Sign\. Change the strategy"
    )
    with replicas.scope(), pytest.raises(ValueError, match=told):
        optimizer.build(variables)


def test_what_is_no_codec_is_told():
    with pytest.raises(TypeError, match=r"codecs as compression\. Received: 0\.01"):
        tf_adasum.wrap(keras.optimizers.SGD(0.1), compression=0.01)


def test_it_is_told_that_nothing_travels_in_one_process(caplog):
    model, number = compiled(2, momentum, "delta", settings={"compression": CODECS["sign"]})
    x, y = examples(4 * number)
    model.fit(x, y, verbose=0)
    said = [record for record in caplog.records if "nothing travels" in record.getMessage()]
    assert len(said) == (world().size == 1)
