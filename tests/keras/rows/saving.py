"""What rank 0 saves, loaded on every rank as a process without a strategy does."""

from __future__ import annotations

import functools
import os

import keras
import tensorflow as tf

from tests.keras.registry import row
from tests.training.replicas import barrier, small_model

saving = functools.partial(row, "Saving")


def saved(run, name, save, load):
    """The outputs of what was loaded from a path, beside those of the model that was saved."""
    model = run.compiled(make_optimizer=lambda: keras.optimizers.Adam(0.01))
    x, y = run.examples()
    history = run.fit(model, x, y)
    path = os.path.join(run.folder(), name)
    if run.writes:
        save(model, path)
    barrier()
    outputs = keras.ops.convert_to_numpy(load(path)(x[:5]))
    return run.result(model, history, outputs=outputs)


@saving("model.save, .keras")
def keras_file(run):
    return saved(run, "m.keras", lambda model, path: model.save(path), keras.models.load_model)


@saving("save_weights, .weights.h5", full=True)
def weights_file(run):
    def load(path):
        model = small_model()
        model.load_weights(path)
        return model

    return saved(run, "m.weights.h5", lambda model, path: model.save_weights(path), load)


@saving("tf.train.Checkpoint")
def checkpoint(run):
    def load(path):
        model = small_model()
        tf.train.Checkpoint(model=model).read(path).expect_partial()
        return model

    return saved(
        run, "state", lambda model, path: tf.train.Checkpoint(model=model).write(path), load
    )


@saving("model.export, a SavedModel")
def exported(run):
    def save(model, path):
        model.export(path, verbose=False)

    def load(path):
        module = tf.saved_model.load(path)

        def outputs(x):
            value = module.serve(x)  # the module must live on: it holds the variables
            return value

        return outputs

    return saved(run, "exported", save, load)


@saving(
    "load_model under the strategy, and go on",
    note="mode='gradient': slots are saved whole",
    full=True,
)
def continued(run):
    with run.scope():
        model = small_model()
        settings = {} if run.is_plain else {"mode": "gradient"}
        model.compile(run.wrap(keras.optimizers.Adam(0.01), **settings), "mse")
    x, y = run.examples()
    first = run.fit(model, x, y)
    path = os.path.join(run.folder(), "m.keras")
    if run.writes:
        model.save(path)
    barrier()
    with run.scope():
        loaded = keras.models.load_model(path)
    return run.result(loaded, run.fit(loaded, x, y), first=first)
