"""What experiment 11 compares: optimizers, reductions and codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

import tf_adasum as adasum
from experiments.exchanging_optimizers import (
    ExchangingOptimizer,
    MomentumOptimizer,
    SketchedOptimizer,
    ZeroOneOptimizer,
)
from tf_adasum.collectives import compression
from tf_adasum.collectives.compression import Compression

# Biases of the hidden layer travel encoded, those of the ten classes as they are.
LEAST_ELEMENTS = 500
# Of the steps, those before momenta travel encoded, or before steps are local.
WARM_UP = 0.2
VARIANCE_INTERVAL, MOST_LOCAL_STEPS = 4, 8
SKETCHED = {"fraction": 0.005, "sketch_fraction": 0.029, "least_elements": LEAST_ELEMENTS}


class Exchanges(NamedTuple):
    """Of all steps, the share that exchanges all as it is, and the share that does so encoded."""

    plain: float
    encoded: float


class Line(NamedTuple):
    """A method, but for how many workers there are.

    Args:
        make: returns a Keras optimizer, given the number of steps.
        reduction: "adasum" or "mean".
        compression: None: as it is.
        mode: of Method.
        exchanging: of Method.
        exchanges: how often, given the number of steps.
        keeps_lost: whether there is error feedback.
        steps_per_sync: K.
        elementwise: whether the optimizer looks at single elements only.
    """

    make: Callable[[int], keras.optimizers.Optimizer]
    reduction: str = "mean"
    compression: Compression | None = None
    mode: str = "delta"
    exchanging: type[ExchangingOptimizer] | None = None
    exchanges: Callable[[int], Exchanges] = lambda steps: Exchanges(0, 1)
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


def _codec(kind: type[Compression], *arguments: float) -> Compression:
    return kind(*arguments, least_elements=LEAST_ELEMENTS)


def _sgd(momentum: float = 0.0) -> Callable[[int], keras.optimizers.Optimizer]:
    return lambda steps: keras.optimizers.SGD(0.1, momentum=momentum)


FLOAT16, SIGN = _codec(compression.Float16), _codec(compression.Sign)
TOP = _codec(compression.TopK, 0.01)
# At a hundredth of the bytes, and at half of that.
THRESHOLDS = {
    f"threshold {100 * f:.2g} %": _codec(compression.Threshold, f) for f in (0.0035, 0.002)
}


def _momentum_lines() -> dict[str, Line]:
    """What is exchanged is each worker's step; of Sketched SGD, gradients that were added up."""
    make = _sgd(0.9)
    codecs = {
        "float16": FLOAT16,
        "4 bits": _codec(compression.Quantized, 4),
        "sign": SIGN,
        "top 1 %": TOP,
        **THRESHOLDS,
    }
    lines = {reduction: Line(make, reduction) for reduction in ("mean", "adasum")}
    for name, codec in codecs.items():
        lines[f"{name}, adasum"] = Line(make, "adasum", codec)
    for name in ("sign", "top 1 %", *THRESHOLDS):
        lines[f"{name}, mean"] = Line(make, "mean", codecs[name])
    for name in ("sign", "top 1 %"):
        without = Line(make, "adasum", codecs[name], keeps_lost=False)
        lines[f"{name}, adasum, no feedback"] = without
    for reduction in ("mean", "adasum"):
        lines[f"Sketched SGD, {reduction}"] = Line(
            lambda steps: adasum.optimizers.SketchedSGD(0.1, 0.9, **SKETCHED),
            reduction,
            mode="gradient",
            exchanging=SketchedOptimizer,
        )
    return lines


def _freeze_step(steps: int) -> int:
    return max(1, round(WARM_UP * steps))


def _one_bit(kind: type, **arguments: Any) -> Line:
    return Line(
        lambda steps: kind(0.1, freeze_step=_freeze_step(steps)),
        compression=SIGN,
        mode="gradient",
        exchanging=MomentumOptimizer,
        exchanges=lambda steps: Exchanges(WARM_UP, 1 - WARM_UP),
        **arguments,
    )


def _doubling_steps(steps: int) -> int:
    """So that K is 1, 2, 4 and 8 in a quarter of the steps each."""
    return max(1, (steps - _freeze_step(steps)) // 4)


def _zero_one(reduction: str) -> Line:
    def make(steps: int) -> keras.optimizers.Optimizer:
        return adasum.optimizers.ZeroOneAdam(
            0.1,
            _freeze_step(steps),
            VARIANCE_INTERVAL,
            _doubling_steps(steps),
            MOST_LOCAL_STEPS,
        )

    return Line(
        make,
        reduction,
        SIGN,
        mode="gradient",
        exchanging=ZeroOneOptimizer,
        exchanges=_exchanges_of_zero_one,
    )


def _exchanges_of_zero_one(steps: int) -> Exchanges:
    frozen_at, step, plain = _freeze_step(steps), 0, 0
    while step < frozen_at:  # 1 apart, then 2 apart, and so on
        step += 1 << plain // VARIANCE_INTERVAL
        plain += 1
    of_each = (steps - frozen_at) / 4
    rounds = of_each + of_each / 2 + of_each / 4 + of_each / 8
    return Exchanges(plain / steps, (frozen_at - plain + rounds) / steps)


def _rounds(reduction: str, codec: Compression | None = None) -> Line:
    return Line(
        _sgd(), reduction, codec, exchanges=lambda steps: Exchanges(0, 1 / 8), steps_per_sync=8
    )


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
            "0/1": _zero_one("mean"),
            "0/1, adasum": _zero_one("adasum"),
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
            "sign, mean": _rounds("mean", SIGN),
            "top 1 %, mean": _rounds("mean", TOP),
            "sign, adasum": _rounds("adasum", SIGN),
        },
    ),
}
