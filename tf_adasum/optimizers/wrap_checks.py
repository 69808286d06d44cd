"""What `wrap` and optimizers of our own refuse: what they can't wrap, and settings."""

from __future__ import annotations

import numbers
from typing import NoReturn

import keras

from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.sync.sync import Sync

# What `accumulate` plans for each of its calls is in the graph of the step.
_MOST_CALLS = 2**16
_PASS_ONE = "Pass one of them to wrap."


def check_mean_or_adasum(reduction: object) -> None:
    """Raises ValueError for another reduction than those that optimizers of our own take."""
    if reduction not in ("mean", "adasum"):
        advice = "Leave it out for the mean."
        raise ValueError(refusal("a reduction among ['mean', 'adasum']", repr(reduction), advice))


def most_steps(count: int | list[int]) -> int:
    """Returns the largest K of any rank."""
    return max(count) if isinstance(count, list) else count


def check_flags(mode: object, divided_loss: object, unused_variables: object) -> None:
    """Raises ValueError for what is none of the values that these settings have."""
    if not isinstance(mode, str) or mode not in ("delta", "gradient"):
        raise ValueError(refusal("mode to be 'delta' or 'gradient'", shown(mode), _PASS_ONE))
    if divided_loss is not None and not isinstance(divided_loss, bool):
        expected = "divided_loss to be None, True or False"
        raise ValueError(refusal(expected, shown(divided_loss), _PASS_ONE))
    if not isinstance(unused_variables, bool):
        expected = "unused_variables to be True or False"
        raise ValueError(refusal(expected, shown(unused_variables), _PASS_ONE))


def check_wrappable(optimizer: object, mode: str) -> None:
    """Raises TypeError or ValueError for what can't be wrapped."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        advice = "Pass keras.optimizers.Adam(1e-3), say."
        raise TypeError(refusal("a Keras 3 optimizer instance", shown(optimizer), advice))
    if isinstance(optimizer, AdasumMixin):
        is_by_wrap = hasattr(optimizer, "adasum_settings")
        mode = optimizer._adasum.get_config().get("mode")
        which = f"in mode {mode!r}" if is_by_wrap else "which needs no wrap"
        received = f"{optimizer.name!r}, {which}"
        advice = "Wrap it once." if is_by_wrap else "Pass it to compile as it is."
        raise ValueError(refusal("an optimizer that is not wrapped already", received, advice))
    if isinstance(optimizer, _optional("MultiOptimizer")):
        advice = "Wrap the optimizers inside it, one by one, before you build it."
        received = f"{optimizer.name!r}, a MultiOptimizer"
        raise TypeError(refusal("a single optimizer", received, advice))
    if mode == "delta" and isinstance(optimizer, _optional("ScheduleFreeAdamW")):
        expected = "mode='gradient' for a ScheduleFreeAdamW, which keeps its weights in a slot"
        received = f"mode={mode!r} for {optimizer.name!r}"
        raise TypeError(refusal(expected, received, "Pass mode='gradient' to wrap."))


def _is_count(value: object) -> bool:
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_int and 1 <= value <= _MOST_CALLS


def check_settings(optimizer, mode: str, accumulate: int, steps_per_sync: int | list[int]) -> None:
    """Raises ValueError for counts that are none, or that don't go with the optimizer."""
    for name, value in (("accumulate", accumulate), ("steps_per_sync", steps_per_sync)):
        of_ranks = value if isinstance(value, list) and name == "steps_per_sync" else [value]
        if not of_ranks or not all(map(_is_count, of_ranks)):
            expected = f"{name} to be an int from 1 to {_MOST_CALLS}"
            raise ValueError(refusal(expected, shown(value), "Pass such a number."))
        if most_steps(value) == 1:
            continue
        if optimizer.gradient_accumulation_steps:
            _refuse_accumulation(f"{name}={value}", optimizer, "Use accumulate=K alone.")
        if optimizer.built:
            _refuse_built(f"{name}={value}", optimizer)
    if most_steps(steps_per_sync) > 1 and mode != "delta":
        expected = "mode='delta' where steps_per_sync reduces changes of the weights"
        received = f"steps_per_sync={steps_per_sync} and mode={mode!r}"
        advice = "Leave mode out, or steps_per_sync."
        raise ValueError(refusal(expected, received, advice))


def _refuse_accumulation(setting: str, optimizer, advice: str) -> NoReturn:
    steps = optimizer.gradient_accumulation_steps
    received = f"gradient_accumulation_steps={steps} for {optimizer.name!r}"
    raise ValueError(refusal(f"no accumulation of Keras' own with {setting}", received, advice))


def _refuse_built(setting: str, optimizer) -> NoReturn:
    expected = f"an optimizer that is not built for {setting}, which adds variables to its own"
    advice = "Wrap it before build and before its first step."
    raise ValueError(refusal(expected, f"{optimizer.name!r}, built", advice))


def _check_left(others: dict[str, bool], optimizer, expected: str, instead: str = "") -> None:
    for setting, is_left in others.items():
        if not is_left:
            received = f"{setting}, too, for {optimizer.name!r}"
            raise ValueError(refusal(expected, received, f"Leave out {setting}{instead}."))


def check_sync(sync: object, optimizer, **others: bool) -> None:
    """Raises for what is no choice of `adasum.sync`, or does not go with the other settings.

    Args:
        sync: what `wrap` was given.
        optimizer: to be wrapped.
        **others: `wrap`'s other settings that say what is exchanged, and when; whether each is
            left as it is.

    Raises:
        TypeError: `sync` is no such choice.
        ValueError: another setting says otherwise.
    """
    Sync.check(sync)
    name = type(sync).__name__
    expected = f"sync={name} alone to decide what replicas exchange, and when"
    _check_left(others, optimizer, expected)
    if optimizer.gradient_accumulation_steps:
        _refuse_accumulation(f"sync={name}", optimizer, "Leave out one of them.")
    if optimizer.built:
        _refuse_built(f"sync={name}", optimizer)


def check_unused(optimizer, **others: bool) -> None:
    """Raises ValueError where `unused_variables` does not go with what else was asked for.

    Args:
        optimizer: to be wrapped.
        **others: `wrap`'s other settings that say what is exchanged, and when; whether each is
            left as it is.
    """
    others["gradient_accumulation_steps"] = not optimizer.gradient_accumulation_steps
    expected = "replicas to meet in each call with unused_variables, and send values as they are"
    _check_left(others, optimizer, expected, " or unused_variables")
    if isinstance(optimizer, keras.optimizers.Adafactor):
        expected = "an optimizer that says what it keeps beside each variable, for unused_variables"
        received = f"{optimizer.name!r}, an Adafactor"
        raise ValueError(refusal(expected, received, "Take another, or leave the option out."))
    if optimizer.built:
        _refuse_built("unused_variables", optimizer)


def _optional(name: str) -> type | tuple:
    """An optimizer class that older versions of Keras lack; nothing is an instance of ()."""
    return getattr(keras.optimizers, name, ())
