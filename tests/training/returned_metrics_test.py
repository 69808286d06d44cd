"""A step of a program's own that returns some metrics' results: those of all rows, by any name."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, strategy

ROWS = 21
RNG = np.random.default_rng(0)
X = RNG.random((ROWS, 3)).astype(np.float32)
Y = (RNG.random((ROWS, 1)) < 0.3).astype(np.int64)


class Counts(keras.metrics.Metric):
    """Positives and negatives among the targets, as a dictionary."""

    def __init__(self):
        super().__init__(name="counts")
        self.sums = [self.add_variable((), "zeros", name=name) for name in ("no", "yes")]

    def update_state(self, y_true, y_pred):
        for wanted, total in enumerate(self.sums):
            total.assign_add(tf.reduce_sum(tf.cast(y_true == wanted, tf.float32)))

    def result(self):
        return {"no": self.sums[0].value, "yes": self.sums[1].value + 0.0}


class Smoothed(keras.metrics.BinaryAccuracy):
    """Its result is one of another class's result."""

    def result(self):
        return 0.5 * super().result()


class Model(keras.Model):
    def __init__(self, returns):
        super().__init__()
        self.dense = keras.layers.Dense(1, "sigmoid", kernel_initializer="ones")
        self.accuracy = keras.metrics.BinaryAccuracy(name="acc")
        self.positives = keras.metrics.TruePositives(0.1, name="tp")
        self.smoothed, self.counts = Smoothed(name="smoothed"), Counts()
        self.returns = returns

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        self.optimizer.apply([tf.zeros_like(each.value) for each in self.trainable_variables])
        return self.test_step(data)

    def test_step(self, data):
        x, y = data
        for metric in (self.accuracy, self.positives, self.smoothed, self.counts):
            metric.update_state(y, self(x))
        return self.returns(self)


# What a step returns, and the names in `expected` of what should be there.
RETURNS = {
    "some": (lambda m: {"tp": m.positives.result()}, {"tp": "tp"}),
    "by other names": (
        lambda m: {"accuracy": m.accuracy.result(), "found": m.positives.result()},
        {"accuracy": "acc", "found": "tp"},
    ),
    "under one another's names": (
        lambda m: {"tp": m.accuracy.result(), "acc": m.positives.result()},
        {"tp": "acc", "acc": "tp"},
    ),
    "with what is none": (
        lambda m: {"tp": m.positives.result(), "lr": m.optimizer.learning_rate},
        {"tp": "tp", "lr": "lr"},
    ),
    "of a result of results": (lambda m: {"half": m.smoothed.result()}, {"half": "half"}),
    "of a dictionary": (
        lambda m: {"acc": m.accuracy.result(), **m.counts.result()},
        {"no": "no", "yes": "tp", "acc": "acc"},
    ),
    "of parts": (lambda m: {"part": m.counts.result()["yes"]}, {"part": "tp"}),
}


def expected(model):
    accuracy = np.mean((model(X).numpy() > 0.5) == Y)
    yes = Y.sum()
    return {"acc": accuracy, "tp": yes, "lr": 0.25, "half": accuracy / 2, "no": ROWS - yes}


def check(logs, wanted):
    assert set(logs) == set(wanted)
    for key, value in logs.items():
        np.testing.assert_allclose(float(value), wanted[key], rtol=1e-6)


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", RETURNS)
def test_logs_are_of_all_rows(name, batch, num_local, eagerly=False):
    with strategy(num_local).scope():
        model = Model(RETURNS[name][0])
        model.build((None, 3))
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.25))
        model.compile(optimizer, run_eagerly=eagerly)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch)
    history = model.fit(data, validation_data=data, epochs=2, verbose=0).history
    tested = model.evaluate(data, verbose=0, return_dict=True)
    values = expected(model)
    wanted = {key: values[value] for key, value in RETURNS[name][1].items()}
    check(tested, wanted)
    for epoch in range(2):
        logs = {key: values[epoch] for key, values in history.items()}
        check(logs, wanted | {f"val_{key}": value for key, value in wanted.items()})


def test_of_a_step_that_is_run_eagerly():
    test_logs_are_of_all_rows("by other names", 4, 1, eagerly=True)


def results_of_a_metric_that_begins_anew(model):
    first = model.accuracy.result()
    model.accuracy.reset_state()
    model.accuracy.update_state([[1.0]], [[1.0]])
    return {"first": first, "last": model.accuracy.result(), "again": model.accuracy.result()}


def results_of_a_metric_that_goes_on(model):
    first = model.accuracy.result()
    model.accuracy.update_state([[1.0]] * 1000, [[1.0]] * 1000)
    return {"first": first, "last": model.accuracy.result()}


@pytest.mark.parametrize(
    "returns", [results_of_a_metric_that_begins_anew, results_of_a_metric_that_goes_on]
)
def test_what_a_metric_returned_before_is_not_what_it_keeps(returns):
    with strategy(1).scope():
        model = Model(returns)
        model.build((None, 3))
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.25)))
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(ROWS)
    logs = model.fit(data, verbose=0).history
    assert logs["first"][0] < 0.9 < logs["last"][0]
