"""The generator that `keras.random` draws from where it is given no seed: Keras has one a process.

No model lists its state, and a program that is started again begins with a new one.
"""

from __future__ import annotations

import keras
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(seed_generator, "GLOBAL_SEED_GENERATOR", "global_seed_generator")
require_hooks(global_state, "get_global_attribute")


def existing() -> keras.Variable | None:
    """Returns the generator's state; None where nothing has drawn from it yet."""
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return None if generator is None else generator.state


def made() -> keras.Variable:
    """Returns the generator's state, of a new generator if there is none."""
    return seed_generator.global_seed_generator().state
