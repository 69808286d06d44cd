"""One rank of overlap_test.py: prints the time of Keras steps whose backward pass sleeps.

    overlap_program.py SECONDS_PER_LAYER LAYERS

On rank 0, one line of JSON: the seconds of the fastest step of each kind.
"""

from __future__ import annotations

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tf_adasum

KERNEL_SHAPE = (256, 1024)  # 1 MiB of float32
STEPS = 10
BUCKET_BYTES = {"bucketed": 2**20, "whole": 2**40}


class SleepingBackward(keras.layers.Layer):
    """Adds the mean of its kernel; the gradient of the kernel takes `seconds` to compute."""

    def __init__(self, seconds: float):
        super().__init__()
        self._seconds = seconds

    def build(self, shape):
        """Makes the kernel."""
        del shape
        self.kernel = self.add_weight(shape=KERNEL_SHAPE)

    def _sleep(self, value):
        time.sleep(self._seconds)
        return value

    def call(self, inputs):
        """x + mean(kernel)"""

        @tf.custom_gradient
        def layer(x, kernel):
            def gradient(upstream):
                late = tf.numpy_function(self._sleep, [upstream], upstream.dtype)
                late.set_shape(upstream.shape)
                size = tf.cast(tf.size(kernel), kernel.dtype)
                return late, tf.fill(kernel.shape, tf.reduce_sum(late) / size)

            return x + tf.reduce_mean(kernel), gradient

        return layer(inputs, tf.convert_to_tensor(self.kernel))


class StepTimes(keras.callbacks.Callback):
    """The seconds that each step of `fit` took."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        """Starts the clock."""
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Stops the clock."""
        self.seconds.append(time.perf_counter() - self._begin)


def fastest_step(mode: str, bucket_bytes: int, seconds_per_layer: float, layers: int) -> float:
    """Trains a few steps with `fit` and returns the seconds of the fastest one."""
    strategy = tf_adasum.AdasumStrategy(bucket_bytes=bucket_bytes)
    with strategy.scope():
        stack = [SleepingBackward(seconds_per_layer) for _ in range(layers)]
        model = keras.Sequential([keras.Input((1,)), *stack])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1, momentum=0.9), mode), loss="mse")
    batch = 2 * strategy.num_replicas_in_sync
    x = np.ones((STEPS * batch, 1), np.float32)
    times = StepTimes()
    model.fit(x, x, batch_size=batch, verbose=0, callbacks=[times])
    return min(times.seconds[1:])


def main() -> None:
    """Times every mode with and without buckets, and the communication by itself."""
    seconds_per_layer, layers = float(sys.argv[1]), int(sys.argv[2])
    seconds = {"communication": fastest_step("gradient", BUCKET_BYTES["bucketed"], 0.0, layers)}
    for mode in ("gradient", "delta"):
        for name, num_bytes in BUCKET_BYTES.items():
            kind = f"{mode} {name}"
            seconds[kind] = fastest_step(mode, num_bytes, seconds_per_layer, layers)
    if tf_adasum.rank() == 0:
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
