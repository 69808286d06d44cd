"""`evaluate` and `predict`: every sample once, in order, on every rank."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

from tests.keras.registry import REFUSED, row
from tests.keras.rows.losses import classifier, labelled, weights_of
from tests.training.replicas import NUM_FEATURES, small_model

evaluation = functools.partial(row, "Evaluation")
# No multiple of the batch, nor of the replicas.
NUM_ROWS = 29
BATCH = 8


class Spread(keras.metrics.Metric):
    """The difference of the largest and the smallest target, and their number."""

    def __init__(self):
        super().__init__(name="spread")
        self.square = self.add_variable((), "zeros")
        self.count = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = tf.cast(y_true, "float32")
        self.square.assign_add(tf.reduce_sum(tf.square(values)))
        self.count.assign_add(tf.cast(tf.size(values), "float32"))

    def result(self):
        return {"square": self.square / self.count, "count": self.count}


def evaluated(run, metrics, **options):
    model = run.compiled(classifier, loss="sparse_categorical_crossentropy", **metrics)
    x, labels = labelled(run)
    data = x[:NUM_ROWS], labels[:NUM_ROWS]
    return model.evaluate(*data, batch_size=BATCH, verbose=0, return_dict=True, **options)


@evaluation("evaluate: loss, accuracy, top-k")
def accuracy(run):
    def metrics():
        return ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)]

    return {"logs": evaluated(run, {"metrics": metrics})}


@evaluation("evaluate: sample_weight")
def weighted(run):
    weights = weights_of(np.zeros(NUM_ROWS))
    return {"logs": evaluated(run, {"weighted_metrics": ["accuracy"]}, sample_weight=weights)}


def binary():
    layers = [keras.layers.Dense(5, "tanh"), keras.layers.Dense(1, "sigmoid")]
    return keras.Sequential([keras.Input((NUM_FEATURES,)), *layers])


@evaluation("evaluate: AUC, F1, precision, recall, a metric of one's own")
def ranked(run):
    def metrics():
        kinds = keras.metrics
        scores = kinds.F1Score(threshold=0.5), kinds.Precision(name="of"), kinds.Recall(name="from")
        return [kinds.AUC(name="area"), *scores, Spread()]

    model = run.compiled(binary, loss="binary_crossentropy", metrics=metrics)
    x, labels = labelled(run)
    truth = (labels[:NUM_ROWS, np.newaxis] == 1).astype(np.float32)
    options = {"batch_size": BATCH, "verbose": 0, "return_dict": True}
    return {"logs": model.evaluate(x[:NUM_ROWS], truth, **options)}


@evaluation(
    "metrics made outside of the scope",
    cell=REFUSED,
    note="create them, and call compile, there",
    full=True,
)
def foreign_metrics(run):
    foreign = keras.metrics.AUC()
    model = run.compiled(binary, loss="binary_crossentropy", metrics=[foreign])
    x, _ = run.examples()
    return {"logs": model.evaluate(x, np.ones((len(x), 1)), batch_size=BATCH, verbose=0)}


@evaluation("evaluate: tf.data of unknown length")
def unknown_length(run):
    model = run.compiled(metrics=["mae"])
    x, y = run.examples()
    data = tf.data.Dataset.from_tensor_slices((x[:NUM_ROWS], y[:NUM_ROWS]))
    data = data.filter(lambda x, y: True).batch(BATCH)
    return {"logs": model.evaluate(data, verbose=0, return_dict=True)}


@evaluation("predict: arrays, 29 rows")
def predicted(run):
    model = run.compiled()
    x, _ = run.examples()
    return {"outputs": model.predict(x[:NUM_ROWS], batch_size=BATCH, verbose=0)}


@evaluation("predict: tf.data, several outputs, steps_per_execution")
def predicted_several(run):
    def make():
        inputs = keras.Input((NUM_FEATURES,))
        inner = small_model()(inputs)
        return keras.Model(inputs, {"all": inner, "first": inner[:, :1], "rows": inputs})

    model = run.compiled(make, loss=None, steps_per_execution=3)
    x, _ = run.examples()
    data = tf.data.Dataset.from_tensor_slices(x[:NUM_ROWS]).batch(BATCH)
    return {"outputs": model.predict(data, verbose=0)}


@evaluation("predict_on_batch")
def predicted_batch(run):
    model = run.compiled()
    x, _ = run.examples()
    return {"outputs": model.predict_on_batch(x[:NUM_ROWS])}
