"""Which reduction, batch and rate to use on N ranks: rules, with what they were measured on."""

from __future__ import annotations

import math

import keras

from tf_adasum.advise.noise import Combined, wasted_epochs
from tf_adasum.distribute.own_variables import parts_of
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of, wrapped_optimizers_of
from tf_adasum.optimizers.exchanges import DeltaExchange
from tf_adasum.optimizers.handed_changes import hands_changes
from tf_adasum.optimizers.mixin import class_before_wrap

_LITTLE_WASTE = 0.1  # of an epoch
_LITTLE_GAIN = 1.25  # steps of one rank
_GOOD_EFFICIENCY = 0.8
_MOST_TIMES = 1024  # as long may a batch become
_MOST_MEASURED = 32  # ranks, in docs/results.md


def reduction_for(ranks: int, batch: int, scale: float, combined: Combined) -> str:
    """Which reduction combines the gradients best.

    Args:
        ranks: N.
        batch: examples of a rank's step.
        scale: B_noise.
        combined: what Adasum makes of N such gradients.

    Returns:
        "either" where averaging wastes less than a tenth of the examples, at N times the rate;
        "mean" where gradients are so alike that Adasum averages them, too; else "adasum".
    """
    if ranks == 1:
        return "-"
    if wasted_epochs(ranks, batch, scale) < _LITTLE_WASTE:
        return "either"
    return "mean" if combined.gain < _LITTLE_GAIN else "adasum"


def batch_for(batch: int, computation: float, overhead: float, scale: float) -> int:
    """Examples of a rank's step at which computation is 80 % of it, if noise leaves room for them.

    Args:
        batch: what it is now.
        computation: seconds of a step with it, taken to grow with the batch.
        overhead: seconds of the step besides.
        scale: B_noise: a rank's batch wastes half of its examples there, and stays below.

    Returns:
        `batch` times a power of two.
    """
    times = 1
    while times < _MOST_TIMES and 2 * times * batch <= scale:
        if times * computation >= _GOOD_EFFICIENCY * (times * computation + overhead):
            break
        times *= 2
    return times * batch


def rate_for(ranks: int, model: keras.Model) -> str:
    """What to multiply one worker's rate by, with Adasum.

    Measured for 8 and 32 workers (docs/results.md, section 8): SGD with and without momentum keep
    their rate. Adam and LAMB take 2 and 4 times theirs in delta mode, 4 and 16 times in gradient
    mode: the square root of N / 2, and N / 2. Beyond 32 nothing was measured: "x4+".

    Args:
        ranks: N, or all replicas of all ranks where a rank has several.
        model: whose optimizer it is; other ones than SGD are taken for Adam.
    """
    if ranks == 1 or isinstance(_optimizer_of(model), keras.optimizers.SGD):
        return "x1"
    times = max(1.0, min(ranks, _MOST_MEASURED) / 2)
    if is_delta(model):
        times = math.sqrt(times)
    return f"x{times:.2g}" + ("+" if ranks > _MOST_MEASURED else "")


def is_delta(model: keras.Model) -> bool:
    """Whether changes of the weights are exchanged, as `wrap` does without being told."""
    parts = parts_of(_optimizer_of(model))
    return parts is None or parts.exchange.has_own_slots


def finds_changes(model: keras.Model) -> bool:
    """Whether these changes are found as differences, as the optimizer does not hand them over."""
    first = _optimizer_of(model)
    parts = parts_of(first)
    takes_changes = parts is None or isinstance(parts.exchange, DeltaExchange)
    return is_delta(model) and not (takes_changes and hands_changes(class_before_wrap(first)))


def describe(model: keras.Model) -> str:
    """The optimizer's class and mode."""
    first = _optimizer_of(model)
    if parts_of(first) is None:
        return f"{type(first).__name__}, not wrapped"
    return f"{class_before_wrap(first).__name__}, {'delta' if is_delta(model) else 'gradient'} mode"


def _optimizer_of(model: keras.Model) -> keras.optimizers.Optimizer:
    """The first that is wrapped: a GAN's compiled one is Keras' default, which takes no step."""
    return [*wrapped_optimizers_of(model), *optimizers_of(model)][0]
