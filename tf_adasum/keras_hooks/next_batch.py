"""The question whether any replica has another batch goes by that name.

The ranks ask it before every batch: it is what they wait in where one of them has stopped.
"""

from __future__ import annotations

import functools

from tensorflow.python.distribute import input_lib

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(input_lib, "_calculate_replicas_with_values")

_NAME = "the next batch: how many replicas have data"


def install() -> None:
    """Names the exchange inside `input_lib._calculate_replicas_with_values`."""
    original = input_lib._calculate_replicas_with_values

    @functools.wraps(original)
    def named(strategy, *args, **kwargs):
        if not isinstance(strategy.extended, HookedExtended):
            return original(strategy, *args, **kwargs)
        with strategy.extended.plain_values_are(_NAME):
            return original(strategy, *args, **kwargs)

    input_lib._calculate_replicas_with_values = named
