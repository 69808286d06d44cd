"""One rank of overlap_test.py: what steps send before their backward pass ends, and their time.

    overlap_program.py SECONDS_PER_LAYER LAYERS

On rank 0, one line of JSON: for each kind of step the seconds of the fastest one, and the bytes
that are sent while the last gradient waits for them.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from benchmarks.step_times import StepTimes

KERNEL_SHAPE = (256, 1024)  # 1 MiB of float32
STEPS = 10
BUCKET_BYTES = {"bucketed": 2**20, "whole": 2**40}
# How long the backward pass waits for bytes that don't come.
WAIT_SECONDS = {"bucketed": 30.0, "whole": 0.2}

_slow_wire = ctypes.CDLL(None)
_slow_wire.SlowWireBytesSent.restype = ctypes.c_int64


class HeldUpBackward(keras.layers.Layer):
    """Adds the mean of its kernel; computing the gradient of the kernel calls `hold_up`."""

    def __init__(self, hold_up: Callable[[], None]):
        super().__init__()
        self._hold_up = hold_up

    def build(self, shape):
        """Makes the kernel."""
        del shape
        self.kernel = self.add_weight(shape=KERNEL_SHAPE)

    def _late(self, value):
        self._hold_up()
        return value

    def call(self, inputs):
        """x + mean(kernel)"""

        @tf.custom_gradient
        def layer(x, kernel):
            def gradient(upstream):
                late = tf.numpy_function(self._late, [upstream], upstream.dtype)
                late.set_shape(upstream.shape)
                size = tf.cast(tf.size(kernel), kernel.dtype)
                return late, tf.fill(kernel.shape, tf.reduce_sum(late) / size)

            return x + tf.reduce_mean(kernel), gradient

        return layer(inputs, tf.convert_to_tensor(self.kernel))


def train(mode: str, bucket_bytes: int, hold_ups: Sequence[Callable[[], None]]) -> list[float]:
    """Trains a few steps with `fit`, a layer for each hold-up, and returns the seconds of each."""
    strategy = tf_adasum.AdasumStrategy(bucket_bytes=bucket_bytes)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), *map(HeldUpBackward, hold_ups)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1, momentum=0.9), mode), loss="mse")
    batch = 2 * strategy.num_replicas_in_sync
    x = np.ones((STEPS * batch, 1), np.float32)
    times = StepTimes()
    model.fit(x, x, batch_size=batch, verbose=0, callbacks=[times])
    return times.seconds


def fastest_step(mode: str, bucket_bytes: int, seconds_per_layer: float, layers: int) -> float:
    """The seconds of the fastest step whose backward pass sleeps in each layer."""
    return min(train(mode, bucket_bytes, [partial(time.sleep, seconds_per_layer)] * layers)[1:])


def bytes_sent_early(mode: str, name: str, layers: int) -> int:
    """The bytes that a step sends before the last gradient, which waits for those of the others."""
    bytes_of_others = (layers - 1) * 4 * KERNEL_SHAPE[0] * KERNEL_SHAPE[1]
    before, sent = [], []

    def begin() -> None:
        before.append(_slow_wire.SlowWireBytesSent())

    def end() -> None:
        limit = time.monotonic() + WAIT_SECONDS[name]
        while time.monotonic() < limit:
            if _slow_wire.SlowWireBytesSent() - before[-1] >= bytes_of_others:
                break
            time.sleep(0.001)
        sent.append(_slow_wire.SlowWireBytesSent() - before[-1])

    # The backward pass begins with the last layer.
    train(mode, BUCKET_BYTES[name], [end, *[lambda: None] * (layers - 2), begin])
    return min(sent)


def main() -> None:
    """Looks at every mode with and without buckets, and at the communication by itself."""
    seconds_per_layer, layers = float(sys.argv[1]), int(sys.argv[2])
    seconds = {"communication": fastest_step("gradient", BUCKET_BYTES["bucketed"], 0.0, layers)}
    early = {}
    for mode in ("gradient", "delta"):
        for name, num_bytes in BUCKET_BYTES.items():
            kind = f"{mode} {name}"
            seconds[kind] = fastest_step(mode, num_bytes, seconds_per_layer, layers)
            early[kind] = bytes_sent_early(mode, name, layers)
    if tf_adasum.rank() == 0:
        print(json.dumps({"seconds": seconds, "bytes sent early": early}), flush=True)


if __name__ == "__main__":
    main()
