"""What replicas assign to a variable is aggregated over all of them, here and on other ranks."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
    sub_batch,
)

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
AGGREGATIONS = {
    tf.VariableAggregation.MEAN: lambda leaves: leaves.mean(axis=0),
    tf.VariableAggregation.SUM: lambda leaves: leaves.sum(axis=0),
    tf.VariableAggregation.ONLY_FIRST_REPLICA: lambda leaves: leaves[0],
}
aggregations = pytest.mark.parametrize(
    "aggregation", AGGREGATIONS, ids=[aggregation.name for aggregation in AGGREGATIONS]
)


def assigned(replicas, aggregation, leaves, in_graph) -> np.ndarray:
    """The values of the process's copies after assign, assign_add and assign_sub; [2, L, ...]."""
    with replicas.scope():
        variables = [
            tf.Variable(tf.ones(leaves.shape[1:], tf.float64), aggregation=aggregation)
            for _ in range(2)
        ]

    def step():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        value = tf.gather(tf.constant(leaves), number)
        variables[0].assign(value)
        variables[1].assign_add(value)
        variables[1].assign_sub(2 * value)

    run = tf.function(replicas.run) if in_graph else replicas.run
    run(step)
    return np.stack([replicas.experimental_local_results(v) for v in variables])


@local_replicas
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@aggregations
def test_assignments_meet_over_all_replicas(aggregation, in_graph, num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    leaves = np.random.default_rng(3).normal(size=(number, 5))
    want = AGGREGATIONS[aggregation](leaves)
    got = assigned(replicas, aggregation, leaves, in_graph)
    for copies in everywhere(got):
        for assign, changed in zip(*copies):
            np.testing.assert_allclose(assign, want, atol=1e-13)
            np.testing.assert_allclose(changed, 1 - want, atol=1e-13)
    if number == 2:  # on two devices of this process
        mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        of_mirrored = assigned(mirrored, aggregation, leaves, in_graph)
        np.testing.assert_allclose(got[:, :1], of_mirrored[:, :1], atol=1e-13)


class Statistic(keras.Layer):
    """Keeps a moving mean of its inputs, the mean over all replicas."""

    def build(self, shape):
        self.seen = self.add_weight(
            shape=(shape[-1],), initializer="zeros", trainable=False, aggregation="mean"
        )

    def call(self, inputs, training=False):
        if training:
            self.seen.assign(0.9 * self.seen + 0.1 * tf.reduce_mean(inputs, axis=0))
        return inputs


def with_statistic(replicas, **settings) -> tuple[keras.Model, Statistic]:
    with replicas.scope():
        statistic = Statistic()
        model = keras.Sequential([keras.Input((4,)), statistic, keras.layers.Dense(8)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), loss="mse", **settings)
    return model, statistic


@local_replicas
def test_a_replica_without_rows_takes_part_step_by_step_too(num_local):
    """With run_eagerly, where the length of a batch is a number, and only one replica's is 0."""
    replicas = strategy(num_local)
    x, y = examples(4 * replicas.num_replicas_in_sync + 1)
    losses = []
    for run_eagerly in (False, True):
        keras.utils.set_random_seed(3)
        model, statistic = with_statistic(replicas, run_eagerly=run_eagerly)
        given = {"batch_size": len(x) - 1, "shuffle": False, "verbose": 0}
        losses += model.fit(x, y, **given).history["loss"]
        assert_equal_on_ranks([statistic.seen])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


@local_replicas
def test_statistics_of_a_layer_are_means_over_all_replicas(num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    model, statistic = with_statistic(replicas)
    x, y = examples(3 * 4 * number)
    model.fit(x, y, batch_size=4 * number, shuffle=False, verbose=0)
    want = np.zeros(4)
    for batch in np.split(x.astype(np.float64), 3):
        means = [sub_batch(batch, r, num_local).mean(axis=0) for r in range(number)]
        want = np.mean([0.9 * want + 0.1 * mean for mean in means], axis=0)
    np.testing.assert_allclose(statistic.seen.numpy(), want, atol=1e-6)
    assert_equal_on_ranks([statistic.seen])


@local_replicas
def test_literals_are_the_programs_own(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        mean = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
    replicas.run(lambda: mean.assign(3.0))
    assert float(mean.numpy()) == 3.0


@local_replicas
def test_counting_steps_sends_nothing(num_local):
    """Steps between two reductions must not wait for other ranks."""
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.01), steps_per_sync=4)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        def replica_step():
            gradients = [tf.ones_like(variable.value) for variable in model.trainable_variables]
            optimizer.apply(gradients, model.trainable_variables)

        replicas.run(replica_step)

    graph = step.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(n for function in graph.library.function for n in function.node_def)]
    assert "AdasumBroadcast" not in {node.op for node in nodes}
    step()
    assert int(optimizer.iterations.numpy()) == 1
