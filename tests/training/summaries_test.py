"""`tf.summary`: callbacks log to rank 0's files alone, and an idle replica adds nothing."""

from __future__ import annotations

import glob
import os
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, barrier, data_of, shared_path, strategy, wrapped_model
from tf_adasum.collectives.communicator import world


def scalars_in(folder):
    """The step and the value of each scalar, by tags, in the order in which they were written."""
    found: dict[str, list] = {}
    for path in sorted(glob.glob(os.path.join(folder, "*tfevents*"))):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for each in event.summary.value:
                value = tf.make_ndarray(each.tensor)
                if value.shape == () and value.dtype == np.float32:
                    found.setdefault(each.tag, []).append((event.step, value.item()))
    return found


class Subclass(keras.callbacks.TensorBoard):
    """Writes something of its own where Keras keeps the writer."""

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        with self._writers["train"].as_default():
            tf.summary.scalar("of the subclass", 2.0, step=epoch)


class EverySecondStep(keras.callbacks.Callback):
    """Asks for the step of the writer that TensorBoard makes the default."""

    def on_train_batch_end(self, batch, logs=None):
        if tf.summary.experimental.get_step() % 2 == 0:
            tf.summary.scalar("of every second step", 1.0)


def test_tensor_board_leaves_the_writer_of_the_program_alone():
    board, own = shared_path("board"), tempfile.mkdtemp()
    model = wrapped_model()
    kept = Subclass(board, histogram_freq=1, update_freq=1)
    data = data_of(model)
    with tf.summary.create_file_writer(own).as_default(step=7):
        history = model.fit(**data, epochs=2, callbacks=[kept, EverySecondStep()]).history
        tf.summary.scalar("of the program", 3.0)
    assert scalars_in(own) == {"of the program": [(7, 3.0)]}
    barrier()
    logged = scalars_in(os.path.join(board, "train"))
    assert logged["of the subclass"] == [(0, 2.0), (1, 2.0)]
    # Keras 3.12 leaves the writer's step at 0.
    assert {step % 2 for step, _ in logged["of every second step"]} == {0}
    assert [step for step, _ in logged["batch_loss"]] == list(range(1, 9))
    epochs = list(enumerate(np.float32(history["loss"])))
    assert logged["epoch_loss"] == epochs


class Recorded(keras.layers.Layer):
    """Records the mean of its inputs."""

    def call(self, inputs):
        tf.summary.scalar("mean", tf.reduce_mean(inputs))
        return inputs


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
def test_an_idle_replica_records_nothing(eager, num_local):
    """Replica 0 records, as TensorFlow has it; of a rank's two replicas both get one batch."""
    own = tempfile.mkdtemp()
    with strategy(num_local).scope():
        model = keras.Sequential([keras.Input((3,)), Recorded(), keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse", run_eagerly=eager)
    rows = np.full((2, 3), 5.0, np.float32)
    with tf.summary.create_file_writer(own).as_default():
        for step in range(4):
            tf.summary.experimental.set_step(step)
            is_idle = step % 2 == 1 and world().rank == 0 and world().size > 1
            number = 0 if is_idle else len(rows)
            model.train_on_batch(rows[:number], rows[:number, :1])
    tf.summary.experimental.set_step(None)
    recorded = [value for values in scalars_in(own).values() for _, value in values]
    steps_with_rows = 2 if world().size > 1 else 4
    assert recorded == [5.0] * (steps_with_rows if world().rank == 0 else 0)
