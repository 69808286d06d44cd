"""The generator that `keras.random` draws from without a seed, lent to the threads of replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from tf_adasum.keras_hooks.core.guard import require_hooks, require_mentions

require_hooks(seed_generator, "global_seed_generator")
require_hooks(global_state, "get_global_attribute", "set_global_attribute")

# Older versions of Keras have the text where they use it.
_NAME = getattr(seed_generator, "GLOBAL_SEED_GENERATOR", "global_seed_generator")
if not hasattr(seed_generator, "GLOBAL_SEED_GENERATOR"):
    require_mentions(seed_generator, "global_seed_generator", _NAME)


def of_this_thread(
    strategy: tf.distribute.Strategy | None = None,
) -> keras.random.SeedGenerator | None:
    """Keras' own generator of this thread.

    Args:
        strategy: whose replicas are to draw from it; None: any.

    Returns:
        None where nothing has drawn from it yet, or where it was made by replicas of another
        strategy, which these can't use.
    """
    generator = global_state.get_global_attribute(_NAME)
    if generator is None or strategy is None:
        return generator
    made_by = getattr(generator.state.value, "distribute_strategy", strategy)
    return generator if made_by is strategy else None


def set_of_this_thread(generator: keras.random.SeedGenerator | None) -> None:
    """Lets this thread draw from another generator; from a new one if it is None."""
    global_state.set_global_attribute(_NAME, generator)


class LentGenerator:
    """Keras has a generator for each thread; replicas draw from that of the thread that runs them.

    A generator for each replica would create a variable in every trace of a function; TensorFlow
    allows that in the first trace only.
    """

    def __init__(self) -> None:
        self._generator: keras.random.SeedGenerator | None = None

    @contextlib.contextmanager
    def lent(self, strategy: tf.distribute.Strategy) -> Iterator[None]:
        """Inside, this thread runs replicas; what the first of them made is its own afterwards."""
        self._generator = of_this_thread(strategy)
        try:
            yield
        finally:
            if self._generator is not None:
                set_of_this_thread(self._generator)

    def get(self, make: Callable[[], keras.random.SeedGenerator]) -> keras.random.SeedGenerator:
        """Returns the generator, in a replica's thread; of `make` if there is none."""
        if self._generator is None:
            self._generator = make()
        return self._generator
