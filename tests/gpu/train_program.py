"""Trains the digits network for some steps on one device, as a rank; for tensorflow_test.

python -m tests.gpu.train_program GPU:0 results.npz folder-for-data-sets
"""

from __future__ import annotations

import sys

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from models.digits import image_set, network, optimizers, settings

STEPS = 20


def main(device: str, path: str, folder: str) -> None:
    """Trains, and writes the weights and where tensors were exchanged.

    Args:
        device: "GPU:0", which all ranks share, or "CPU:0".
        path: file that rank 0 writes.
        folder: for prepared data sets.
    """
    _prepare(device)
    exchanged = _note_exchange_devices()
    keras.utils.set_random_seed(1)
    images = image_set.load("digits", folder)
    strategy = tf_adasum.AdasumStrategy([device])
    with strategy.scope():
        model = network.build(images.image_shape, images.num_classes)
        optimizer = optimizers.make(settings.OPTIMIZER, settings.LEARNING_RATE)
        model.compile(
            optimizer=tf_adasum.wrap(optimizer),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    count = settings.BATCH_SIZE * strategy.num_replicas_in_sync
    pixels = images.train.images.astype(np.float32) / images.train.images.max()
    batches = tf.data.Dataset.from_tensor_slices((pixels, images.train.labels)).batch(count)
    history = model.fit(batches.take(STEPS), epochs=1, shuffle=False, verbose=0)
    if tf_adasum.rank() == 0:
        names = [weight.path.partition("/")[2] for weight in model.weights]
        np.savez(
            path,
            loss=history.history["loss"][-1],
            exchanged=sorted(exchanged),
            **{f"weight {name}": weight.numpy() for name, weight in zip(names, model.weights)},
        )


def _prepare(device: str) -> None:
    if device.startswith("GPU") and not tf.config.list_physical_devices("GPU"):
        sys.exit(f"Expected a GPU that this TensorFlow {tf.__version__} can use. Received: none.")
    # Rounding to 10 bits of mantissa would be all that is compared.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.config.experimental.enable_op_determinism()


def _note_exchange_devices() -> set[str]:
    """Returns a set that will hold the devices on which gradients are exchanged."""
    module = sys.modules["tf_adasum.collectives.allreduce_replicas"]
    choose, seen = module.exchange_device, set()

    def noted(replicas, *rest):
        device = choose(replicas, *rest)
        if any(tensor.dtype.is_floating and tensor.shape.rank for tensor in replicas[0]):
            seen.add(device or "CPU")
        return device

    module.exchange_device = noted
    return seen


if __name__ == "__main__":
    main(*sys.argv[1:])
