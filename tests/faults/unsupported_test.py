"""tf_adasum next to what it was not built or made for fails with one line."""

import sys

import pytest

from tests import programs

LIMIT_SECONDS = 100

OTHER_VERSION = """
import sys, types
info = types.ModuleType("adasumrun._build_info")
info.TENSORFLOW_VERSION, info.MPI_LIBRARY, info.MPIRUN = "2.20.0", None, None
sys.modules["adasumrun._build_info"] = info
import tf_adasum
"""

NOT_BUILT = """
import sys
sys.modules["adasumrun._build_info"] = None
import tf_adasum
"""

OTHER_BACKEND = """
import keras
keras.config.backend = lambda: "jax"
import tf_adasum
"""

KERAS_2 = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf, tf_adasum
with tf_adasum.AdasumStrategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[3])])
    optimizer = tf.keras.optimizers.SGD()
    model.compile(optimizer=optimizer, loss="mse")
"""

KERAS_2_FIT = (
    KERAS_2
    + """
model.fit(np.ones([8, 3]), np.ones([8, 1]))
"""
)

KERAS_2_OPTIMIZER = (
    KERAS_2
    + """
variables = model.trainable_variables
pairs = [(tf.ones(variable.shape), variable) for variable in variables]
model.distribute_strategy.run(lambda: optimizer.apply_gradients(pairs))
"""
)


def _last_line(program):
    done = programs.run([sys.executable, "-c", program], LIMIT_SECONDS)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_other_tensorflow():
    import tensorflow as tf

    # The whole of the message in the last line: one line.
    assert _last_line(OTHER_VERSION) == (
        "ImportError: tf_adasum was built against TensorFlow 2.20.0. Received: TensorFlow "
        f"{tf.__version__}. Install that version, or build again with "
        "`./configure.py && make build`."
    )


@pytest.mark.long
def test_not_built():
    last = _last_line(NOT_BUILT)
    assert last.startswith("ImportError: tf_adasum was not built")
    assert "make build" in last


def test_other_backend_of_keras():
    last = _last_line(OTHER_BACKEND)
    assert last.startswith("ImportError: tf_adasum needs Keras' backend to be tensorflow.")
    assert "Received: jax. Set KERAS_BACKEND=tensorflow" in last


@pytest.mark.parametrize(
    "program", [KERAS_2_FIT, pytest.param(KERAS_2_OPTIMIZER, marks=pytest.mark.long)]
)
def test_keras_2(program):
    assert _last_line(program) == (
        "ValueError: rank 0: Expected a model and an optimizer of Keras 3. Received: ones of "
        "tf_keras, which is Keras 2. Import keras, or use tf.keras without TF_USE_LEGACY_KERAS=1."
    )
