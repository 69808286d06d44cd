"""What `wrap` refuses: optimizers that it can't wrap, and settings that don't go together."""

from __future__ import annotations

import numbers

import keras

from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.sync.sync import Sync

# What `accumulate` plans for each of its calls is in the graph of the step.
_MOST_CALLS = 2**16


def most_steps(count: int | list[int]) -> int:
    """Returns the largest K of any rank."""
    return max(count) if isinstance(count, list) else count


def check_wrappable(optimizer: object, mode: str) -> None:
    """Raises TypeError or ValueError for what can't be wrapped."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "wrap needs a Keras 3 optimizer instance, such as keras.optimizers.Adam(1e-3). "
            f"Received: {optimizer!r} of type {type(optimizer).__name__}."
        )
    if isinstance(optimizer, AdasumMixin):
        mode = optimizer._adasum.get_config().get("mode")
        raise ValueError(
            "wrap was given an optimizer that is wrapped already; wrap it once. Received: "
            f"{optimizer.name!r}, " + (f"in mode {mode!r}." if mode else "which needs no wrap.")
        )
    if isinstance(optimizer, _optional("MultiOptimizer")):
        raise TypeError(
            "wrap the optimizers inside a MultiOptimizer, one by one, before you build it. "
            f"Received: {optimizer.name!r}, a MultiOptimizer."
        )
    if mode == "delta" and isinstance(optimizer, _optional("ScheduleFreeAdamW")):
        raise TypeError(
            "ScheduleFreeAdamW keeps its weights in a slot that mode='delta' does not exchange; "
            f"use wrap(optimizer, mode='gradient'). Received: {optimizer.name!r}."
        )


def _is_count(value: object) -> bool:
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_int and 1 <= value <= _MOST_CALLS


def check_settings(optimizer, mode: str, accumulate: int, steps_per_sync: int | list[int]) -> None:
    """Raises ValueError for counts that are none, or that don't go with the optimizer."""
    for name, value in (("accumulate", accumulate), ("steps_per_sync", steps_per_sync)):
        of_ranks = value if isinstance(value, list) and name == "steps_per_sync" else [value]
        if not of_ranks or not all(map(_is_count, of_ranks)):
            raise ValueError(
                f"{name} must be an integer >= 1, and at most {_MOST_CALLS}. Received: "
                f"{name}={value!r}."
            )
        if most_steps(value) == 1:
            continue
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"{name} does not go with Keras' own accumulation: use accumulate=K alone. "
                f"Received: {name}={value} for {optimizer.name!r} with "
                f"gradient_accumulation_steps={optimizer.gradient_accumulation_steps}."
            )
        if optimizer.built:
            raise ValueError(
                f"wrap with {name} needs an optimizer that is not built: its variables are made "
                f"with the others. Received: {name}={value} for {optimizer.name!r}, built."
            )
    if most_steps(steps_per_sync) > 1 and mode != "delta":
        raise ValueError(
            "steps_per_sync reduces changes of the weights; use mode='delta'. "
            f"Received: steps_per_sync={steps_per_sync} and mode={mode!r}."
        )


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
    for setting, is_left in others.items():
        if not is_left:
            raise ValueError(
                f"sync={name} decides what replicas exchange, and when; leave out {setting}. "
                f"Received: both, for {optimizer.name!r}."
            )
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            f"sync={name} does not go with Keras' own accumulation. Received: "
            f"gradient_accumulation_steps={optimizer.gradient_accumulation_steps} for "
            f"{optimizer.name!r}."
        )
    if optimizer.built:
        raise ValueError(
            f"wrap with sync={name} needs an optimizer that is not built: its variables are made "
            f"with the others. Received: {optimizer.name!r}, built."
        )


def check_unused(optimizer, is_plain: bool) -> None:
    """Raises ValueError where `unused_variables` does not go with what else was asked for.

    Args:
        optimizer: to be wrapped.
        is_plain: whether replicas meet in each call, and what they exchange travels as it is.
    """
    if not is_plain or optimizer.gradient_accumulation_steps:
        raise ValueError(
            "unused_variables asks in each call which variables are in use, and each call must be "
            "a step in which replicas meet; leave out accumulate, steps_per_sync, sync, "
            "compression and Keras' gradient_accumulation_steps. Received: one of them, for "
            f"{optimizer.name!r}."
        )
    if isinstance(optimizer, keras.optimizers.Adafactor):
        raise ValueError(
            "unused_variables keeps what an optimizer has beside each variable, and Adafactor does "
            f"not say what that is. Received: {optimizer.name!r}, an Adafactor."
        )
    if optimizer.built:
        raise ValueError(
            "wrap with unused_variables needs an optimizer that is not built: it learns of the "
            f"slots as they are made. Received: {optimizer.name!r}, built."
        )


def _optional(name: str) -> type | tuple:
    """An optimizer class that older versions of Keras lack; nothing is an instance of ()."""
    return getattr(keras.optimizers, name, ())
