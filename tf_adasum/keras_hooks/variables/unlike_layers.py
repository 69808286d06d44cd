"""What ranks must have made alike beside weights: the order of variables, and what layers learned.

Python orders sets anew in each process. Heads that are made in the order of a set meet others' in
the same place, and a vocabulary from a set has other words at the same numbers; a layer that each
rank adapts to data of its own computes another thing there. Equal weights cure neither.
"""

from __future__ import annotations

import collections
import hashlib
import math
from typing import NamedTuple

import keras
import numpy as np
from keras.layers import Discretization, IntegerLookup, Normalization, StringLookup
from keras.src.layers.preprocessing.index_lookup import IndexLookup

from tf_adasum.collectives.gathered import first_unlike, gather_json, in_words_of_two
from tf_adasum.collectives.names import number_of, without_counters
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.variables.made_to_train import made_to_train

require_hooks(keras.Model, "_flatten_layers")
require_reads(IndexLookup, "get_vocabulary", "lookup_table")

_NAME = "what layers are"
_ORDER = "order of variables"
_LEARNED = "state of "
_ADAPT = (
    "Adapt it (a TextVectorization holds a StringLookup) to the same data on all ranks, or give "
    "all ranks one list, such as a sorted set."
)
# Ranks may add up the same rows in another order.
_TOLERANCE = 1e-3


class _Learned(NamedTuple):
    """What a layer learned or was given.

    Attributes:
        text: for errors.
        exact: bytes that must be equal.
        numbers: that must be close.
    """

    text: str
    exact: bytes
    numbers: np.ndarray


def of_layers(model: keras.Model) -> dict[str, str]:
    """What ranks compare when `fit` begins: a digest of each thing that must be alike."""
    told = {_ORDER: _digest("\n".join(_paths(model)).encode())}
    for setting, learned in _learned(model).items():
        told[setting] = _digest(learned.exact + learned.numbers.tobytes())
    return told


def is_of_layers(setting: str) -> bool:
    """Whether `of_layers` gave it its name."""
    return setting == _ORDER or setting.startswith(_LEARNED)


def refusal_of(setting: str, call: calls.Call) -> str | None:
    """The error's line for a digest that is unlike; None where it is no error. Collective.

    Numbers may be close, and how many variables there are is compared with the weights.

    Args:
        setting: its name.
        call: the call of `fit`.
    """
    expected = f"the same {setting} on all ranks when fit begins"
    if setting == _ORDER:
        received = _unlike_order(call)
        advice = "Make layers in one order on all ranks: go over a list, or a sorted set."
        return None if received is None else refusal(expected, received, advice)
    own = _learned(call.model).get(setting, _Learned("none", b"", np.zeros(0)))
    told = {"text": own.text, "exact": _digest(own.exact), "numbers": own.numbers.tolist()}
    of_ranks = gather_json(told, call.communicator, _NAME)
    unlike = [rank for rank, theirs in enumerate(of_ranks) if not _is_close(theirs, of_ranks[0])]
    if not unlike:
        return None
    first, other = (of_ranks[rank]["text"] for rank in (0, unlike[0]))
    received = in_words_of_two(first, other, unlike[0], call.communicator)
    return refusal(expected, received, _ADAPT)


def _is_close(one: dict, other: dict) -> bool:
    if one["exact"] != other["exact"] or len(one["numbers"]) != len(other["numbers"]):
        return False
    return np.allclose(one["numbers"], other["numbers"], rtol=_TOLERANCE, atol=0)


def _unlike_order(call: calls.Call) -> str | None:
    of_ranks = gather_json(_paths(call.model), call.communicator, _NAME)
    rank = first_unlike(of_ranks)
    first, other = of_ranks[0], of_ranks[rank]
    if len(first) != len(other):
        return None
    place = next(i for i, pair in enumerate(zip(first, other)) if pair[0] != pair[1])
    told = in_words_of_two(first[place], other[place], rank, call.communicator)
    return f"{told}, as number {place + 1}"


def _paths(model: keras.Model) -> list[str]:
    """In the order in which they were made: ranks agreed on their initial values one by one."""

    def place(variable: keras.Variable) -> float:
        number = number_of(variable.value)
        return math.inf if number is None else number

    in_order = sorted(made_to_train(model), key=place)
    return [without_counters(variable.path) for variable in in_order]


def _learned(model: keras.Model) -> dict[str, _Learned]:
    """By the class of the layer and its number among those of this class."""
    numbers: collections.Counter[str] = collections.Counter()
    found = {}
    for layer in model._flatten_layers():
        if learned := _of_layer(layer):
            kind = type(layer).__name__
            numbers[kind] += 1
            found[f"{_LEARNED}{kind} {numbers[kind]}"] = learned
    return found


def _of_layer(layer: keras.layers.Layer) -> _Learned | None:
    """Of the layers that Keras has for it; None where it is no such layer, or there is nothing."""
    if isinstance(layer, (StringLookup, IntegerLookup)):
        return _of_lookup(layer)
    if isinstance(layer, Normalization) and layer.mean is not None:
        mean, variance = (np.ravel(each) for each in (layer.mean, layer.variance))
        text = f"mean {mean[0]:g} and variance {variance[0]:g} of the first"
        return _Learned(text, b"", np.concatenate([mean, variance]).astype(np.float64))
    if isinstance(layer, Discretization) and layer.bin_boundaries is not None:
        borders = np.ravel(layer.bin_boundaries).astype(np.float64)
        return _Learned(f"borders of bins {[float(f'{b:.4g}') for b in borders[:3]]}", b"", borders)
    return None


def _of_lookup(layer: StringLookup | IntegerLookup) -> _Learned | None:
    """From the table: `get_vocabulary` makes a str of each word, which takes long and may fail."""
    if layer.lookup_table.size() == 0:
        return None
    table = [each.numpy() for each in layer.lookup_table.export()]
    places, words = table if layer.invert else reversed(table)
    order = np.argsort(places)
    words = words[order]
    idf = getattr(layer, "idf_weights", None)
    weights = np.zeros(0) if idf is None else np.asarray(idf, np.float64)
    exact = b"\n".join(words.tolist()) if words.dtype == object else words.tobytes()
    text = f"{len(words)} words, {_word(words[-1])} at the end"
    return _Learned(text, places[order].tobytes() + exact, weights)


def _word(word: bytes | np.integer) -> str:
    return repr(word.decode(errors="replace")) if isinstance(word, bytes) else str(word)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
