"""The ways of training that the benchmarks compare, and models compiled for each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

import tf_adasum as adasum
from tf_adasum.collectives.compression import Compression, Float16, Sign, TopK

# No bucket is ever full: everything is sent when the backward pass is over.
_ONE_BUCKET = 2**40


class Method(NamedTuple):
    """Which strategy and optimizer; plain Keras in every process if `strategy` is false."""

    strategy: bool
    mode: str | None = None  # of tf_adasum.wrap; None leaves the optimizer as it is
    bucket_bytes: int = 25 * 2**20
    jit_compile: bool | str = "auto"
    compression: Compression | None = None  # of tf_adasum.wrap
    own_optimizer: Callable[[], keras.optimizers.Optimizer] | None = None  # needs no wrap

    def compiled(
        self,
        make_model: Callable[[], keras.Model],
        make_optimizer: Callable[[], keras.optimizers.Optimizer],
        loss: object,
        devices: Sequence[str] | None = None,
    ) -> keras.Model:
        """Returns a model with all its variables, to be trained this way on these devices."""
        scope = contextlib.nullcontext()
        if self.strategy:
            scope = adasum.AdasumStrategy(devices, bucket_bytes=self.bucket_bytes).scope()
        with scope:
            model, optimizer = make_model(), (self.own_optimizer or make_optimizer)()
            if self.mode:
                optimizer = adasum.wrap(optimizer, self.mode, compression=self.compression)
            model.compile(optimizer, loss, jit_compile=self.jit_compile)
            optimizer.build(model.trainable_variables)
        return model


METHODS = {
    "plain Keras": Method(False),
    "mean": Method(True),
    "adasum delta": Method(True, "delta"),
    "adasum delta, 1 bucket": Method(True, "delta", _ONE_BUCKET),
    "adasum gradient": Method(True, "gradient"),
    "adasum gradient, 1 bucket": Method(True, "gradient", _ONE_BUCKET),
}
# Forward and backward pass by XLA; plain Keras gives it the whole step.
COMPILED = {
    f"{name}, XLA": METHODS[name]._replace(jit_compile=True)
    for name in ("plain Keras", "mean", "adasum delta", "adasum gradient")
}
# 1-bit Adam is measured after its warm-up: a turn's first step is not timed.
ENCODED = {
    **{
        f"adasum delta, {name}": Method(True, "delta", compression=codec)
        for name, codec in (("float16", Float16()), ("sign", Sign()), ("top 1 %", TopK(0.01)))
    },
    "1-bit Adam": Method(True, own_optimizer=lambda: adasum.optimizers.OneBitAdam(freeze_step=1)),
}
