"""What experiment 11 compares: optimizers, reductions and codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

import tf_adasum as adasum
from tf_adasum.collectives.compression import (
    Compression,
    Float16,
    Quantized,
    Sign,
    Threshold,
    TopK,
)

# Steps in which 1-bit optimizers exchange gradients as they are: a fifth.
WARM_UP = 0.2


class Line(NamedTuple):
    """A method, but for how many workers there are.

    Args:
        make: returns a Keras optimizer, given the number of steps.
        reduction: "adasum" or "mean".
        compression: None: as it is.
        mode: of Method.
        keeps_lost: whether there is error feedback.
        steps_per_sync: K.
        elementwise: whether the optimizer looks at single elements only.
    """

    make: Callable[[int], keras.optimizers.Optimizer]
    reduction: str = "mean"
    compression: Compression | None = None
    mode: str = "delta"
    keeps_lost: bool = True
    steps_per_sync: int = 1
    elementwise: bool = True


class Family(NamedTuple):
    """Lines that share an optimizer, and are compared.

    Args:
        untouched: the rate of one worker, or of the mean of all, as a user has it.
        rates: those that are tried.
        lines: by name.
    """

    untouched: float
    rates: tuple[float, ...]
    lines: dict[str, Line]


def _sgd(momentum: float = 0.0) -> Callable[[int], keras.optimizers.Optimizer]:
    return lambda steps: keras.optimizers.SGD(0.1, momentum=momentum)


def _momentum_lines() -> dict[str, Line]:
    """What is exchanged is each worker's step."""
    make = _sgd(0.9)
    codecs = {
        "float16": Float16(),
        "4 bits": Quantized(4),
        "sign": Sign(),
        "top 1 %": TopK(0.01),
        "threshold 0.2 %": Threshold(0.002),
    }
    lines = {reduction: Line(make, reduction) for reduction in ("mean", "adasum")}
    for name, codec in codecs.items():
        lines[f"{name}, adasum"] = Line(make, "adasum", codec)
    for name in ("sign", "top 1 %", "threshold 0.2 %"):
        lines[f"{name}, mean"] = Line(make, "mean", codecs[name])
    for name in ("sign", "top 1 %"):
        without = Line(make, "adasum", codecs[name], keeps_lost=False)
        lines[f"{name}, adasum, no feedback"] = without
    return lines


def _one_bit(kind: type, **arguments: Any) -> Line:
    def make(steps: int) -> keras.optimizers.Optimizer:
        return kind(0.1, freeze_step=max(1, round(WARM_UP * steps)))

    return Line(make, compression=Sign(), mode="momentum", **arguments)


def _rounds(reduction: str, compression: Compression | None = None) -> Line:
    return Line(_sgd(), reduction, compression, steps_per_sync=8)


FAMILIES = {
    "momentum": Family(0.02, (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08), _momentum_lines()),
    "adam": Family(
        0.001,
        (0.001, 0.002, 0.004, 0.008, 0.016),
        {
            "mean": Line(lambda steps: keras.optimizers.Adam(0.1), mode="gradient"),
            "1-bit": _one_bit(adasum.optimizers.OneBitAdam),
            "1-bit, adasum": _one_bit(adasum.optimizers.OneBitAdam, reduction="adasum"),
            "1-bit, no feedback": _one_bit(adasum.optimizers.OneBitAdam, keeps_lost=False),
        },
    ),
    "lamb": Family(
        0.01,
        (0.005, 0.01, 0.02, 0.04, 0.08),
        {
            "mean": Line(
                lambda steps: keras.optimizers.Lamb(0.1), mode="gradient", elementwise=False
            ),
            "1-bit": _one_bit(adasum.optimizers.OneBitLamb),
        },
    ),
    "8 local steps": Family(
        0.2,
        (0.1, 0.2, 0.4, 0.8),
        {
            "mean": _rounds("mean"),
            "adasum": _rounds("adasum"),
            "sign, mean": _rounds("mean", Sign()),
            "top 1 %, mean": _rounds("mean", TopK(0.01)),
            "sign, adasum": _rounds("adasum", Sign()),
        },
    ),
}
