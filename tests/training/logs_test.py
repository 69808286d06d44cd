"""What an epoch and `evaluate` log are numbers of all rows, and what plain Keras would give."""

from __future__ import annotations

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import LOCAL, data_of, everywhere, small_model, strategy
from tf_adasum.collectives.communicator import world

LAST = world().size - 1


@pytest.mark.parametrize("num_local", LOCAL)
def test_they_are_pythons_numbers(num_local):
    """On all versions of Keras, the old ones of which hand over what the hook returns."""
    with strategy(num_local).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse", metrics=["mae"])
    data = data_of(model)
    history = model.fit(**data, epochs=2, validation_data=(data["x"], data["y"])).history
    found = [*itertools.chain(*history.values()), *model.evaluate(**data)]
    assert len(found) == 4 * 2 + 2
    assert {type(number) for number in found} == {float}
    assert json.loads(json.dumps(history)) == history


class OwnLogs(keras.Model):
    """Logs tensors, arrays and Python's numbers that no metric keeps."""

    def test_step(self, data):
        own = {"single": tf.constant(0.5), "several": tf.ones([3]), "whole": tf.constant(2)}
        return own | {"half": tf.constant(1.5, tf.bfloat16), "number": 0.25, "flag": True}


@pytest.mark.parametrize("num_local", LOCAL)
def test_what_evaluate_returns_has_the_types_that_one_device_gives(num_local):
    """Keras 3.12 hands over tensors of a `test_step`, later ones make numbers of single values."""
    single = OwnLogs()
    single.compile()
    with strategy(num_local).scope():
        model = OwnLogs()
        model.compile()
    data = data_of(model)
    expected = single.evaluate(**data, return_dict=True)
    found = model.evaluate(**data, return_dict=True)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert type(found[name]) is type(value), name
        assert getattr(found[name], "dtype", None) == getattr(value, "dtype", None), name
        assert np.all(found[name] == value), name


class Forgetful(keras.metrics.Metric):
    """Keeps what it saw where no replica and no rank adds it up."""

    def update_state(self, *args, **kwargs):
        pass

    def result(self):
        return 1.0 + world().rank


def test_a_metric_that_keeps_something_by_itself():
    with strategy(1).scope():
        model = small_model()
        model.compile(loss="mse", metrics=[Forgetful(name="own")])
    data = data_of(model)
    assert model.evaluate(**data, return_dict=True)["own"] == 1 + LAST / 2


class Rows(keras.metrics.Sum):
    """What it returns is a variable, which plain Keras reads."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(keras.ops.ones_like(y_true[:, 0]))

    def result(self):
        return self.total.value


@pytest.mark.parametrize("num_local", LOCAL)
def test_a_metric_that_returns_its_variable(num_local):
    with strategy(num_local).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse", metrics=[Rows("rows")])
    data = data_of(model)
    rows = len(data["x"])
    assert model.fit(**data, epochs=2).history["rows"] == [rows, rows]
    assert model.evaluate(**data, return_dict=True)["rows"] == rows


class OfTheGuide(keras.Model):
    """Keras' guide has a train_step return what each of `self.metrics` has."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            metric.update_state(*((loss,) if metric.name == "loss" else (y, predicted)))
        return {metric.name: metric.result() for metric in self.metrics}


@pytest.mark.parametrize("num_local", LOCAL)
def test_metrics_in_the_logs_of_a_train_step_are_those_of_all_rows(num_local):
    """Though replicas have unlike numbers of rows."""
    with strategy(num_local).scope():
        inputs = keras.Input((1,))
        model = OfTheGuide(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.0)), "mse", metrics=["mae"])
    rows = 2 * model.distribute_strategy.num_replicas_in_sync + 1
    y = np.arange(2 * rows, dtype=np.float32)[:, np.newaxis] ** 2
    logs = model.fit(np.ones_like(y), y, batch_size=rows, shuffle=False, verbose=0).history
    np.testing.assert_allclose(logs["mae"], [np.mean(y)], rtol=1e-6)


class LogsOfRows(keras.Model):
    """Its step returns what each row has, what three classes have, and a mean in either shape."""

    def train_step(self, data):
        rows = keras.utils.unpack_x_y_sample_weight(data)[0][:, 0]
        classes = tf.stack([tf.reduce_mean(rows), tf.constant(1.0), tf.reduce_max(rows)])
        mean = tf.reduce_mean(rows)
        either = mean if world().rank == LAST else tf.fill([1], mean)
        return {"each": rows, "mean": mean, "classes": classes, "either": either}


def test_what_has_unlike_shapes_on_the_ranks_is_the_ranks_own():
    """Plain Keras logs those of the last batch; what has one shape everywhere is averaged."""
    size = world().size
    with strategy(1).scope():
        model = LogsOfRows()
        model.compile()
    batch = 6 * size - 1  # one row less on the last rank
    x = np.arange(2 * batch, dtype=np.float32)[:, np.newaxis]
    own = x[batch:][6 * world().rank : 6 * world().rank + 6, 0]
    history = model.fit(x, batch_size=batch, shuffle=False, verbose=0).history
    np.testing.assert_array_equal(history["each"][-1], own)
    means = everywhere(np.mean(own))
    assert np.ravel(history["either"]) == [np.mean(own)]
    assert history["mean"][-1] == pytest.approx(np.mean(means))
    expected = [np.mean(means), 1, np.mean(everywhere(np.max(own)))]
    np.testing.assert_allclose(history["classes"][-1], expected)
