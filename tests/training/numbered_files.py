"""Text files whose rows are numbers, and a model that counts which rows it has seen."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from tests.training.replicas import barrier, shared_path, strategy
from tf_adasum.collectives.communicator import world

ROWS_OF_FILE = 4


def number_files(num_files: int) -> list[str]:
    """Writes the numbers from 0 on to files of four each, on rank 0; returns their names."""
    path = shared_path("rows")
    names = [f"{path}{index}" for index in range(num_files)]
    if world().rank == 0:
        for index, name in enumerate(names):
            rows = range(index * ROWS_OF_FILE, (index + 1) * ROWS_OF_FILE)
            with open(name, "w") as file:
                file.writelines(f"{row}\n" for row in rows)
    barrier()
    return names


def to_number(text: tf.Tensor) -> tf.Tensor:
    """A row of a file as float32 [1]."""
    return tf.strings.to_number(text)[None]


class Seen(keras.metrics.Metric):
    """How many targets there were, and the sum of their squares."""

    def __init__(self):
        super().__init__(name="seen")
        self.count, self.squares = self.add_variable((), "zeros"), self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign_add(tf.cast(tf.size(y_true), tf.float32))
        self.squares.assign_add(tf.reduce_sum(tf.square(y_true)))

    def result(self):
        return {"count": self.count, "squares": self.squares}


def model_of_ones(num_local: int) -> keras.Model:
    """It predicts what it is given, and stays as it is."""
    with strategy(num_local).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.0)), "mse", metrics=[Seen()])
        model.set_weights([np.ones([1, 1])])
    return model
