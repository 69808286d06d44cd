"""What ranks must have made alike beside weights: the order of variables, and what layers learned.

Python orders sets anew in each process. Heads that are made in the order of a set meet others' in
the same place, and a vocabulary from a set has other words at the same numbers; a layer that each
rank adapts to data of its own computes another thing there. Neither shows in the weights.
"""

from __future__ import annotations

import collections
import hashlib
import math
from collections.abc import Iterable

import keras
import numpy as np

from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.collectives.names import number_of, without_counters
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks import calls
from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(keras.Model, "_flatten_layers")

_ORDER = "order of trainable variables"
_LEARNED = "state of "


def of_layers(model: keras.Model) -> dict[str, str]:
    """What ranks compare when `fit` begins: a text for each thing that must be alike."""
    told = {_ORDER: _digest(_paths(model))}
    numbers: collections.Counter[str] = collections.Counter()
    for layer in model._flatten_layers():
        if learned := _learned(layer):
            kind = type(layer).__name__
            numbers[kind] += 1
            told[f"{_LEARNED}{kind} {numbers[kind]}"] = learned
    return told


def refusal_of(setting: str, received: str, rank: int, call: calls.Call) -> str | None:
    """The error's line where such a thing is unlike; collective. None for another setting.

    Args:
        setting: a name that `of_layers` gave.
        received: rank 0's text and the other rank's.
        rank: the first one that differs from rank 0.
        call: the call of `fit`.
    """
    expected = f"the same {setting} on all ranks when fit begins"
    if setting == _ORDER:
        advice = "Make layers in one order on all ranks: go over a list, or a sorted set."
        return refusal(expected, _first_unlike_path(rank, call), advice)
    if setting.startswith(_LEARNED):
        advice = "Adapt it to the same data on all ranks, or pass the same list, a sorted set."
        return refusal(expected, received, advice)
    return None


def _first_unlike_path(rank: int, call: calls.Call) -> str:
    own = "\n".join(_paths(call.model)).encode()
    told = gather_bytes(own, call.communicator, "the order of trainable variables")
    first, other = (told[each].decode().split("\n") for each in (0, rank))
    if len(first) != len(other):
        return f"{len(first)} variables on rank 0, {len(other)} on rank {rank}"
    place = next(i for i, pair in enumerate(zip(first, other)) if pair[0] != pair[1])
    return f"{first[place]} on rank 0, {other[place]} on rank {rank}, as number {place + 1}"


def _paths(model: keras.Model) -> list[str]:
    """In the order in which they were made: ranks agreed on their initial values one by one."""

    def place(variable: keras.Variable) -> float:
        number = number_of(variable.value)
        return math.inf if number is None else number

    in_order = sorted(model.trainable_variables, key=place)
    return [without_counters(variable.path) for variable in in_order]


def _learned(layer: keras.layers.Layer) -> str | None:
    """Of the layers that Keras has for it; None where it is no such layer, or there is nothing."""
    if isinstance(layer, (keras.layers.StringLookup, keras.layers.IntegerLookup)):
        words = list(map(str, layer.get_vocabulary()))
        return f"{len(words)} words such as {words[-1]!r} at the end ({_digest(words)})"
    if isinstance(layer, keras.layers.Normalization) and layer.mean is not None:
        mean, variance = (np.ravel(each) for each in (layer.mean, layer.variance))
        return f"mean {mean[0]:g}, variance {variance[0]:g} ({_digest([*mean, *variance])})"
    if isinstance(layer, keras.layers.Discretization) and layer.bin_boundaries is not None:
        borders = np.ravel(layer.bin_boundaries)
        return f"{len(borders)} borders such as {borders[0]:g} ({_digest(borders)})"
    return None


def _digest(values: Iterable) -> str:
    return hashlib.sha256("\n".join(map(str, values)).encode()).hexdigest()[:12]
