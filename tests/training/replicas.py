"""What the tests of the strategy share: two logical CPUs a rank, small models, known batches.

Import it before anything starts TensorFlow's runtime.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from tf_adasum.collectives.communicator import world

MAX_LOCAL = 2
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * MAX_LOCAL,
)
# Several ranks share the cores of the machine.
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)

# Local replicas to test with: the issue asks for (1,1), (1,2), (2,1), (2,2) and (3,1).
LOCAL = (1, 2) if world().size < 3 else (1,)
NUM_FEATURES = 4
# Adasum jumps where two vectors cancel: what is left is rounding, and its direction decides. Adam's
# first step is +-lr in every entry, so variables need several entries to keep away from that.
NUM_OUTPUTS = 8


def strategy(num_local: int, **options) -> tf_adasum.AdasumStrategy:
    """A strategy with `num_local` logical CPUs in this process."""
    return tf_adasum.AdasumStrategy([f"CPU:{i}" for i in range(num_local)], **options)


def small_model(*extra: keras.Layer) -> keras.Model:
    """Two dense layers with `extra` between them."""
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            keras.layers.Dense(9, activation="tanh", name="first"),
            *extra,
            keras.layers.Dense(NUM_OUTPUTS, name="second"),
        ]
    )


def wrapped_model() -> keras.Model:
    """The same, compiled with a wrapped SGD in the scope of a strategy of one device a rank."""
    with strategy(1).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), "mse")
    return model


def examples(number: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`number` inputs and targets, the same on every rank."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(number, NUM_FEATURES)).astype(np.float32)
    y = np.sin(
        x @ random.normal(size=(NUM_FEATURES, NUM_OUTPUTS)) + random.normal(size=NUM_OUTPUTS)
    )
    return x, y.astype(np.float32)


def endless_examples(at_end: Callable[[], None]) -> tf.data.Dataset:
    """One example again and again, from a generator that calls `at_end` when it ends."""
    x, y = examples(1)

    def rows():
        try:
            while True:
                yield x[0], y[0]
        finally:
            at_end()

    specs = (tf.TensorSpec(x[0].shape, x.dtype), tf.TensorSpec(y[0].shape, y.dtype))
    return tf.data.Dataset.from_generator(rows, output_signature=specs)


def sub_batch(batch: np.ndarray, replica: int, num_local: int) -> np.ndarray:
    """The part of a global batch that replica number p * L + l gets: sub-batch l * P + p."""
    num_ranks = world().size
    rank, local = divmod(replica, num_local)
    return np.split(batch, num_ranks * num_local)[local * num_ranks + rank]


def everywhere(value: np.ndarray) -> np.ndarray:
    """Stacks every rank's float64 `value` along a new first axis, on all ranks."""
    value = np.asarray(value, np.float64)
    slots = np.zeros((world().size, *value.shape))
    slots[world().rank] = value
    return tf_adasum.allreduce(tf.constant(slots), "sum", name="test: everywhere").numpy()


def assert_equal_on_ranks(variables) -> None:
    """Fails unless every rank holds the same bits in `variables`, on all local replicas."""
    for variable in variables:
        local = [copy.numpy() for copy in variable.value.values]
        rows = everywhere(np.frombuffer(local[0].tobytes(), np.uint8))
        assert (rows == rows[0]).all(), f"{variable.path} differs between ranks"
        assert all(copy.tobytes() == local[0].tobytes() for copy in local), variable.path


def shared_path(name: str) -> str:
    """A path that all ranks agree on, in a folder of rank 0."""
    own = os.path.join(tempfile.mkdtemp(), name).encode().ljust(400)
    agreed = tf_adasum.broadcast(tf.constant(np.frombuffer(own, np.uint8)))
    return agreed.numpy().tobytes().decode().strip()


def barrier() -> None:
    """Returns when all ranks have come here."""
    tf_adasum.allreduce(tf.zeros([1]), "sum", name="test: barrier")


def data_of(model: keras.Model, batches: int = 4) -> dict:
    """Arguments of `fit` and `evaluate`: so many batches of four rows for each replica."""
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(batches * batch)
    return {"x": x, "y": y, "batch_size": batch, "verbose": 0}
