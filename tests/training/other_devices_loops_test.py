"""Loops of one's own, and what replicas hand on, where ranks have unlike numbers of devices."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.other_devices import COUNTS, OTHERS, both, by_mean, on_devices, ranks_replicas
from tests.training.replicas import everywhere, examples, small_model
from tests.training.unlike_batches import assert_near, model_under, one_process
from tf_adasum.collectives.communicator import world


@both
@pytest.mark.parametrize("how", ["plain", "gradient"])
def test_loops_of_ones_own(how, counts):
    batch_size = 8 * sum(counts)  # in a loop of one's own replicas' rows must be those of shares
    x, y = examples(2 * batch_size)
    replicas = by_mean(counts)
    model = model_under(replicas, how)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)

    @tf.function
    def train(batch):
        def step(batch_x, batch_y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(batch_x) - batch_y) ** 2)
                divided = loss / replicas.num_replicas_in_sync
            gradients = tape.gradient(divided, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            return loss, tf.shape(batch_x)[0]

        losses, rows = replicas.run(step, batch)
        return replicas.reduce("SUM", rows, axis=None), replicas.reduce("MEAN", losses, axis=None)

    batches = list(replicas.experimental_distribute_dataset(data))
    assert len(batches) == 2
    for batch in batches:
        rows, loss = train(batch)
        assert (int(rows), bool(loss > 0)) == (batch_size, True)
        assert len(np.unique(everywhere(loss))) == 1
    assert_near(model.get_weights(), one_process(x, y, batch_size)[0])


@pytest.mark.parametrize("counts", [COUNTS, OTHERS, [2] * world().size], ids=str)
def test_what_replicas_hand_on_counts_once_for_each(counts):
    replicas = on_devices(counts)
    number = replicas.num_replicas_in_sync
    with replicas.scope():
        kinds = {
            each: tf.Variable(0.0, aggregation=each, synchronization=of_reads)
            for each, of_reads in (
                (tf.VariableAggregation.MEAN, tf.VariableSynchronization.AUTO),
                (tf.VariableAggregation.SUM, tf.VariableSynchronization.ON_READ),
            )
        }
    common = tf.constant(3.0)

    def step():
        context = tf.distribute.get_replica_context()
        own = tf.cast(context.replica_id_in_sync_group, tf.float32)
        mean, total = kinds.values()
        mean.assign(own)
        total.assign(own)
        merged = context.merge_call(
            lambda strategy, value: strategy.reduce("SUM", value, axis=None), args=(own,)
        )
        everything = context.all_reduce("SUM", [own, common])
        return own, merged, everything, context.all_gather(tf.reshape(own, [1]), axis=0)

    for run in (lambda: replicas.run(step), tf.function(lambda: replicas.run(step))):
        own, merged, (total, of_common), gathered = run()
        ids = [float(each) for each in replicas.experimental_local_results(own)]
        assert ids == ranks_replicas(counts)
        for each in replicas.experimental_local_results(merged):
            assert each == sum(range(number))
        for each in replicas.experimental_local_results(total):
            assert each == sum(range(number))
        for each in replicas.experimental_local_results(of_common):
            assert each == 3 * number
        for each in replicas.experimental_local_results(gathered):
            assert each.numpy().tolist() == list(range(number))
        assert replicas.reduce("SUM", own, axis=None) == sum(range(number))
        if len(set(counts)) > 1:
            assert replicas.reduce("SUM", merged, axis=None) == number * sum(range(number))
        assert replicas.gather(gathered, axis=0).shape == number**2
        values = [float(variable) for variable in kinds.values()]
        assert values == [sum(range(number)) / number, sum(range(number))]


@both
def test_a_tensor_that_is_one_object_on_all_replicas(counts):
    """It is a value of each where numbers are unlike; else, as to TensorFlow, one of a process."""
    replicas = on_devices(counts)
    common = tf.constant([3.0])
    number = sum(counts) if len(set(counts)) > 1 else world().size

    def merged():
        context = tf.distribute.get_replica_context()
        return context.merge_call(
            lambda strategy, value: strategy.reduce("SUM", value, axis=None), args=(common,)
        )

    if world().size == 1 and number < sum(counts):  # as by TensorFlow
        with pytest.raises(ValueError, match="cannot be reduced"):
            replicas.reduce("SUM", replicas.run(lambda: common), axis=None)
        return
    for step, total in ((lambda: common, 3 * number), (merged, 3 * number)):
        for run in (replicas.run, tf.function(replicas.run)):
            result = run(step)
            first = replicas.experimental_local_results(result)[0]
            if step is merged:
                assert first.numpy().tolist() == [total]
            else:
                assert replicas.reduce("SUM", result, axis=None).numpy().tolist() == [total]
                if len(set(counts)) > 1:
                    assert replicas.gather(result, axis=0).numpy().tolist() == [3.0] * number


def test_branches_in_which_replicas_would_meet_are_refused_on_all_ranks():
    """By TensorFlow where a rank has several replicas, as one has by itself, and so by others."""
    x, y = examples(8 * sum(COUNTS))
    with by_mean().scope():
        model = small_model()
        model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), loss="mse")
    with pytest.raises(RuntimeError, match="merge_call"):
        model.fit(x, y, len(x), verbose=0)


def test_a_tensor_that_all_replicas_assign_is_their_mean():
    replicas = on_devices()
    with replicas.scope():
        variable = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
    same = tf.constant(5.0)
    replicas.run(tf.function(lambda: variable.assign(same)))
    assert float(variable) == 5.0
