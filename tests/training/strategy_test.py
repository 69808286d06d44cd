"""Replicas, variables, sums, data: what an AdasumStrategy promises besides training."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
local_replicas = pytest.mark.parametrize("num_local", LOCAL)


def own_ids(replicas):
    """Numbers of this process's replicas, as float64."""
    ids = replicas.run(lambda: tf.distribute.get_replica_context().replica_id_in_sync_group)
    return [int(i) for i in replicas.experimental_local_results(ids)]


@local_replicas
def test_replicas_are_numbered_over_all_ranks(num_local):
    replicas = strategy(num_local)
    assert replicas.num_replicas_in_sync == world().size * num_local
    assert replicas.extended._task_id == world().rank  # KerasTuner saves by it
    assert replicas.cluster_resolver.task_id == world().rank
    assert own_ids(replicas) == [world().rank * num_local + r for r in range(num_local)]
    values = replicas.experimental_distribute_values_from_function(
        lambda context: np.int64(context.replica_id_in_sync_group)
    )
    assert list(replicas.experimental_local_results(values)) == own_ids(replicas)


@local_replicas
def test_variables_start_with_the_values_of_rank_0(num_local):
    keras.utils.set_random_seed(100 + world().rank)
    with strategy(num_local).scope():
        model = small_model(keras.layers.Dropout(0.5))
        counter = tf.Variable(world().rank, dtype=tf.int64)
    keras.utils.set_random_seed(100)
    want = [v.numpy() for v in small_model(keras.layers.Dropout(0.5)).trainable_variables]
    for got, expected in zip(model.trainable_variables, want):
        np.testing.assert_array_equal(got.numpy(), expected)
    assert_equal_on_ranks(model.variables)
    assert int(counter.numpy()) == 0


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(
    "dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64]
)
def test_all_reduce_is_the_exact_sum_and_mean(dtype, in_graph, num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync

    def step():
        context = tf.distribute.get_replica_context()
        value = tf.cast(context.replica_id_in_sync_group + 1, dtype) * tf.ones([3], dtype)
        return context.all_reduce(SUM, value), context.all_reduce(MEAN, [value * number])

    run = tf.function(lambda: replicas.run(step)) if in_graph else lambda: replicas.run(step)
    total, (mean,) = run()
    for copy in replicas.experimental_local_results(total):
        np.testing.assert_array_equal(copy.numpy(), [number * (number + 1) // 2] * 3)
    for copy in replicas.experimental_local_results(mean):
        np.testing.assert_array_equal(copy.numpy(), [number * (number + 1) // 2] * 3)


@local_replicas
def test_reduce_to_the_host(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    values = replicas.run(
        lambda: {"id": tf.distribute.get_replica_context().replica_id_in_sync_group}
    )
    assert int(replicas.reduce("SUM", values, axis=None)["id"]) == number * (number - 1) // 2
    mean = replicas.reduce("MEAN", values, axis=None)["id"].numpy()
    np.testing.assert_allclose(mean, (number - 1) / 2, rtol=1e-15)
    rows = replicas.run(lambda: tf.ones([2, 3]))
    np.testing.assert_array_equal(replicas.reduce("MEAN", rows, axis=0), [1.0] * 3)


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
def test_means_of_whole_numbers_have_fractions(in_graph, num_local):
    replicas = strategy(num_local)
    want = (replicas.num_replicas_in_sync - 1) / 2
    sync = {"synchronization": tf.VariableSynchronization.ON_READ}
    with replicas.scope():
        of_each = tf.Variable(0, aggregation=tf.VariableAggregation.SUM, **sync)
        of_all = tf.Variable(7)

    def step():
        context = tf.distribute.get_replica_context()
        own = context.replica_id_in_sync_group
        of_each.assign(own)
        pair = context.all_reduce(MEAN, [own, tf.cast(own, tf.float32)])
        return [own, *pair, context.all_reduce(MEAN, tf.cast(own, tf.uint8))]

    def means():
        own, *means = replicas.run(step)
        to_variable = replicas.extended.batch_reduce_to(MEAN, [(own, own)])
        return [*means, *to_variable, replicas.reduce(MEAN, of_each, axis=None)]

    for mean in (tf.function(means) if in_graph else means)():
        for copy in replicas.experimental_local_results(mean):
            np.testing.assert_allclose(copy, want, rtol=1e-15)
    assert int(replicas.reduce(MEAN, of_all, axis=None)) == 7
    if replicas.num_replicas_in_sync > 1:
        assert replicas.reduce(MEAN, of_each, axis=None).dtype == tf.float64
    of_processes = replicas.reduce(MEAN, [-tf.constant(world().rank)], axis=None)
    np.testing.assert_allclose(of_processes, [(1 - world().size) / 2], rtol=1e-15)


@local_replicas
def test_only_a_batch_to_variables_takes_the_rules(num_local):
    replicas = strategy(num_local, reductions=[("summed", "sum"), ("averaged", "mean")])
    with replicas.scope():
        names = ("combined", "summed", "averaged")
        variables = [tf.Variable(tf.zeros([5]), name=name) for name in names]
    number = replicas.num_replicas_in_sync
    leaves = np.random.default_rng(3).normal(size=(number, 5))
    values = replicas.experimental_distribute_values_from_function(
        lambda context: tf.constant(leaves[context.replica_id_in_sync_group], tf.float32)
    )
    to_variables = replicas.extended.batch_reduce_to(SUM, [(values, v) for v in variables])
    wanted = [adasum.reduce(list(leaves)), leaves.sum(0), leaves.mean(0)]
    for got, want in zip(to_variables, wanted):
        for copy in replicas.experimental_local_results(got):
            np.testing.assert_allclose(copy, want, atol=2e-6)
    (to_values,) = replicas.extended.batch_reduce_to(SUM, [(values, values)])
    (mean,) = replicas.extended.batch_reduce_to(MEAN, [(values, variables[0])])
    one = replicas.extended.reduce_to(SUM, values, variables[0])
    for got, want in ((to_values, wanted[1]), (mean, wanted[2]), (one, wanted[1])):
        np.testing.assert_allclose(replicas.experimental_local_results(got)[0], want, atol=2e-6)


@local_replicas
def test_each_example_is_seen_once_though_it_is_shuffled(num_local):
    replicas = strategy(num_local)
    number = 8 * replicas.num_replicas_in_sync
    pipeline = tf.data.Dataset.range(number).shuffle(number).batch(replicas.num_replicas_in_sync)
    seen = np.zeros(number)
    for batch in replicas.experimental_distribute_dataset(pipeline):
        for part in replicas.experimental_local_results(batch):
            seen[part.numpy()] += 1
    np.testing.assert_array_equal(everywhere(seen).sum(axis=0), np.ones(number))


@local_replicas
def test_input_function_gets_rank_and_number_of_ranks(num_local):
    replicas = strategy(num_local)
    contexts = []

    def pipeline(context):
        contexts.append(context)
        return tf.data.Dataset.from_tensors(tf.constant([context.input_pipeline_id])).repeat(
            num_local
        )

    rows = list(replicas.distribute_datasets_from_function(pipeline))
    assert len(rows) == 1
    assert contexts[0].num_input_pipelines == world().size
    assert contexts[0].input_pipeline_id == world().rank
    assert contexts[0].num_replicas_in_sync == replicas.num_replicas_in_sync


@local_replicas
def test_fit_and_evaluate_with_uneven_data(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        model = small_model()
        model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    batch = 2 * number
    x, y = examples(3 * batch + 1)  # the last batch has one example: most replicas have none
    history = model.fit(x, y, batch_size=batch, epochs=2, verbose=0).history
    for values in history.values():
        assert np.isfinite(values).all()
        assert (everywhere(values) == values).all()  # callbacks decide alike at an epoch's end
    got = model.evaluate(x, y, batch_size=batch, verbose=0, return_dict=True)
    prediction = small_copy(model)(x).numpy()
    np.testing.assert_allclose(got["mae"], np.abs(prediction - y).mean(), rtol=1e-5)
    np.testing.assert_allclose(got["loss"], np.square(prediction - y).mean(), rtol=1e-5)
    assert_equal_on_ranks(model.trainable_variables)
    rows = model.predict(x, batch_size=batch, verbose=0)
    np.testing.assert_allclose(rows, prediction, rtol=0, atol=1e-6)


@local_replicas
def test_model_is_built_from_batches_that_no_reduction_takes(num_local):
    """Bytes, strings, and a first batch that is short on some replicas only."""
    replicas = strategy(num_local)
    with replicas.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Rescaling(1 / 255.0), keras.layers.Dense(2)])
        model.compile(optimizer="sgd", loss="mse")
    number = 2 * replicas.num_replicas_in_sync - 1
    x = np.arange(3 * number, dtype=np.uint8).reshape(number, 3)
    model.fit(x, np.ones((number, 2)), batch_size=number + 1, verbose=0)
    assert model.built
    assert_equal_on_ranks(model.trainable_variables)


def small_copy(model):
    """The same weights outside any strategy."""
    copy = small_model()
    copy.set_weights(model.get_weights())
    return copy


@local_replicas
def test_progress_and_plan_are_printed_on_rank_0_only(num_local, capfd):
    replicas = strategy(num_local, reductions=[("bias$", "mean")])
    with replicas.scope():
        model = small_model()
        model.compile(optimizer="sgd", loss="mse")
    plan = replicas.reduction_plan(model)
    assert [row.reduction for row in plan] == ["adasum", "mean"] * 2
    x, y = examples(4 * replicas.num_replicas_in_sync)
    capfd.readouterr()
    replicas.reduction_plan(model)
    model.fit(x, y, batch_size=len(x))
    output = capfd.readouterr().out
    if world().rank == 0:
        assert str(plan) in output
        assert "loss" in output
    else:
        assert output == ""


def test_rule_that_matches_nothing_fails_in_fit_and_plan():
    replicas = strategy(1, reductions=[("no_such_layer", "mean")])
    with replicas.scope():
        model = small_model()
    with pytest.raises(ValueError, match=r"no_such_layer.*to match a variable.*first/kernel"):
        replicas.reduction_plan(model)


def test_plan_of_an_unbuilt_model_is_refused():
    replicas = strategy(1)
    with replicas.scope():
        model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="models that have their variables"):
        replicas.reduction_plan(model)


def test_sum_of_equal_copies_is_refused():
    replicas = strategy(1)
    with replicas.scope():
        variable = tf.Variable(1.0)
    with pytest.raises(ValueError, match="same on all replicas"):
        replicas.reduce("SUM", variable, axis=None)


@pytest.mark.parametrize("num_local", LOCAL)
def test_variables_are_python_numbers(num_local):
    with strategy(num_local).scope():
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.25))
        variable = tf.Variable(2.5)
    assert float(optimizer.learning_rate) == 0.25
    assert int(optimizer.iterations) == 0
    assert (float(variable), int(variable), complex(variable)) == (2.5, 2, 2.5)


def test_model_built_on_one_rank_only_does_not_shift_the_names_of_later_ones():
    """Keras numbers names per process; the last rank builds, trains nothing, and goes on."""
    if world().rank == world().size - 1:
        plain = small_model(keras.layers.Dropout(0.5), keras.layers.Dense(9))
        plain.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
        plain.optimizer.build(plain.trainable_variables)
    replicas = strategy(1)
    with replicas.scope():
        layers = [keras.layers.Dense(9), keras.layers.Dropout(0.5), keras.layers.Dense(NUM_OUTPUTS)]
        model = keras.Sequential([keras.Input((NUM_FEATURES,)), *layers])
        model.compile(
            optimizer=tf_adasum.wrap(keras.optimizers.SGD(0.1, momentum=0.9)),
            loss="mse",
            metrics=["mae"],
        )
    names = everywhere(np.frombuffer(model.name.ljust(40).encode(), np.uint8))
    assert world().size == 1 or (names[0] != names[-1]).any()  # or nothing is shown here
    x, y = examples(8 * replicas.num_replicas_in_sync)
    model.fit(x, y, batch_size=len(x) // 2, verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
