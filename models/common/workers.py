"""How many workers train, and on which devices: the flags that all models share."""

from __future__ import annotations

import tensorflow as tf
from absl import app, flags

import tf_adasum

FLAGS = flags.FLAGS

flags.DEFINE_enum("mode", "delta", ["delta", "gradient"], "What is combined: see tf_adasum.wrap.")
flags.DEFINE_integer("seed", 0, "Of initial weights and of the order of the examples.")
flags.DEFINE_integer(
    "workers",
    None,
    "Replicas, as CPU devices: a multiple of the number of ranks. Default: one for each rank.",
    lower_bound=1,
)


def local_devices() -> list[str] | None:
    """This process's devices, as for `AdasumStrategy`; call it before TensorFlow's runtime starts.

    Raises:
        app.UsageError: --workers is no multiple of the number of ranks.
    """
    if FLAGS.workers is None:
        return None
    ranks = tf_adasum.size()
    if FLAGS.workers % ranks:
        raise app.UsageError(
            "expected --workers to be a multiple of the number of ranks, or to be left out. "
            f"Received: --workers={FLAGS.workers} on {ranks} ranks."
        )
    replicas = FLAGS.workers // ranks
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * replicas
    )
    return [f"CPU:{index}" for index in range(replicas)]


def describe(strategy: tf_adasum.AdasumStrategy) -> str:
    """Says how many workers there are and where, e.g. "8 workers (2 ranks x 4 replicas)"."""
    workers, ranks = strategy.num_replicas_in_sync, strategy.extended.communicator.size
    places = f" ({ranks} ranks x {workers // ranks} replicas)" if 1 < ranks < workers else ""
    return f"{workers} worker{'s' if workers > 1 else ''}{places}"
