"""Loads what ranks saved, in a process without ranks; with or without tf_adasum.

python load_program.py FOLDER with|without: prints, as JSON, what each file gives for the inputs in
FOLDER/x.npy, and what Keras says where it refuses.
"""

from __future__ import annotations

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

FOLDER, WITH = sys.argv[1], sys.argv[2] == "with"
if WITH:
    import tf_adasum
else:
    sys.modules["tf_adasum"] = None  # as where it is not installed: importing it fails


def path(name):
    return os.path.join(FOLDER, name)


def fresh():
    """The same model and optimizer, not wrapped where there is nothing to wrap with."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(9, activation="tanh", name="first"),
            layers.BatchNormalization(),
            layers.Dense(8, name="second"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(tf_adasum.wrap(optimizer) if WITH else optimizer, loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def told(model):
    """What a model says of itself: outputs, steps, and the first slot."""
    slots = [v for v in model.optimizer.variables if "momentum" in v.path] if model.compiled else []
    return {
        "outputs": np.asarray(model(x)).tolist(),
        "steps": int(np.asarray(model.optimizer.iterations)) if model.compiled else None,
        "slot": np.asarray(slots[0]).tolist() if slots else None,
    }


x = np.load(path("x.npy"))
found = {"keras, compile=False": told(keras.models.load_model(path("m.keras"), compile=False))}
try:
    loaded = keras.models.load_model(path("m.keras"))
    found["keras"] = told(loaded)
    loaded.fit(x, np.zeros((len(x), 8)), verbose=0)
except (TypeError, ValueError, ImportError) as error:
    found["keras"] = f"{type(error).__name__}: {error}"
model = fresh()
model.load_weights(path("m.weights.h5"))
found["weights"] = told(model)
model = fresh()
tf.train.Checkpoint(model=model).read(path("checkpoint")).expect_partial()
found["checkpoint"] = told(model)
exported = tf.saved_model.load(path("exported"))
found["exported"] = {"outputs": exported.serve(tf.constant(x)).numpy().tolist()}
print("found", json.dumps(found))
