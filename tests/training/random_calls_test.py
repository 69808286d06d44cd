"""Random sequences of everyday calls: replicas hold the same bits after each, and count alike.

A seed says what is called; a failure names it, and what was done until then.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    NUM_FEATURES,
    NUM_OUTPUTS,
    assert_equal_on_ranks,
    barrier,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.collectives.compression import Sign, TopK
from tf_adasum.distribute.variables import local_copies, native_variable

SEEDS = range(12)
CALLS = ["fit", "fit", "fit", "evaluate", "predict", "freeze", "scale", "step", "reload"]
LAYERS: list[Callable | None] = [
    None,
    functools.partial(keras.layers.Dropout, 0.2),
    keras.layers.BatchNormalization,
    functools.partial(keras.layers.BatchNormalization, synchronized=True),
]
SETTINGS = [
    {},
    {"mode": "gradient"},
    {"steps_per_sync": 3},
    {"accumulate": 2},
    {"accumulate": 2, "mode": "gradient"},
    {"compression": Sign(least_elements=0)},
    {"compression": TopK(0.3, least_elements=0), "mode": "gradient"},
    {"sync": tf_adasum.sync.GroupAveraging(2, 3, wait=True)},
    {"unused_variables": True},
    None,  # not wrapped
]


class Batches(keras.utils.PyDataset):
    """The same batches in each epoch."""

    def __init__(self, x, y, size):
        super().__init__()
        self._data, self._size = (x, y), size

    @property
    def num_batches(self):
        return -(-len(self._data[0]) // self._size)

    def __getitem__(self, index):
        rows = slice(index * self._size, (index + 1) * self._size)
        return tuple(values[rows] for values in self._data)


def data_of(kind, rows, batch, replicas):
    x, y = examples(rows)
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": batch}
    if kind == "PyDataset":
        return {"x": Batches(x, y, batch)}
    if kind == "generator":
        return {"x": (Batches(x, y, batch)[i] for i in range(-(-rows // batch)))}
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    if kind == "unknown length":
        return {"x": dataset.filter(lambda x, y: True)}
    return {
        "x": dataset if kind == "dataset" else replicas.experimental_distribute_dataset(dataset)
    }


KINDS = ["arrays", "PyDataset", "generator", "dataset", "unknown length", "distributed"]


class Training:
    """A model on all replicas, and how many steps it should have taken."""

    def __init__(self, replicas, draw: random.Random):
        self._replicas, self._draw = replicas, draw
        with replicas.scope():
            layer = draw.choice(LAYERS)
            self.model = small_model(*([layer()] if layer else []))
        self._compile()

    def _compile(self) -> None:
        self.num_steps = 0
        rate = self._draw.choice([0.05, keras.optimizers.schedules.ExponentialDecay(0.05, 3, 0.9)])
        options = {"clipnorm": 1.0} if self._draw.random() < 0.3 else {}
        settings = self._draw.choice(SETTINGS)
        with self._replicas.scope():
            kind = self._draw.choice([keras.optimizers.SGD, keras.optimizers.Adam])
            optimizer = kind(rate, **options)
            if settings is not None:
                optimizer = tf_adasum.wrap(optimizer, **settings)
            per_execution = self._draw.choice([1, 1, 2])
            self.model.compile(optimizer, "mse", metrics=["mae"], steps_per_execution=per_execution)

    def _data(self, kinds=KINDS):
        number = self._replicas.num_replicas_in_sync
        rows, batch = self._draw.choice([8 * number, 13, 29]), number * self._draw.choice([2, 3])
        kind = self._draw.choice(kinds)
        return kind, -(-rows // batch), data_of(kind, rows, batch, self._replicas)

    def fit(self):
        kind, steps, data = self._data()
        epochs = 1 if kind == "generator" else self._draw.choice([1, 2])
        self.model.fit(**data, epochs=epochs, verbose=0)
        self.num_steps += epochs * steps

    def evaluate(self):
        found = np.array(self.model.evaluate(**self._data()[2], verbose=0))
        assert (everywhere(found) == found).all()

    def predict(self):
        data = self._data(KINDS[:-1])[2]
        data.pop("y", None)
        found = self.model.predict(**data, verbose=0)
        assert found.shape[1:] == (NUM_OUTPUTS,)
        assert (everywhere(found) == found).all()

    def freeze(self):
        layer = self.model.layers[0]
        layer.trainable = not layer.trainable
        self._compile()

    def scale(self):
        self.model.set_weights([0.9 * values for values in self.model.get_weights()])

    def step(self):
        rows = self._draw.choice([1, 2 * self._replicas.num_replicas_in_sync])
        self.model.train_on_batch(np.ones((rows, NUM_FEATURES)), np.ones((rows, NUM_OUTPUTS)))
        self.num_steps += 1

    def reload(self):
        path = shared_path("all.weights.h5")
        if world().rank == 0:
            self.model.save_weights(path)
        barrier()
        self.model.load_weights(path)


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_stay_alike(seed, num_local):
    keras.utils.set_random_seed(seed)
    draw = random.Random(seed)
    training = Training(strategy(num_local), draw)
    for call in [draw.choice(CALLS) for _ in range(4)]:
        print(call)
        getattr(training, call)()
        if training.model.optimizer.built:
            iterations = native_variable(training.model.optimizer._iterations)
            counts = [int(copy.numpy()) for copy in local_copies(iterations)]
            assert counts == [training.num_steps] * num_local
        if call in ("fit", "evaluate", "predict"):  # between other calls rounds may be under way
            assert_equal_on_ranks(training.model.trainable_variables)
            assert all(np.isfinite(values).all() for values in training.model.get_weights())
