"""The generator that `keras.random` draws from where it is given no seed: Keras has one a process.

No model lists its state, and a program that is started again begins with a new one.
"""

from __future__ import annotations

import functools
from concurrent import futures

import keras
import tensorflow as tf
from keras.src.random import seed_generator

from tf_adasum.keras_hooks.core import lent_generator
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(seed_generator, "global_seed_generator")


def install() -> None:
    """Lets replicas draw from the generator of the thread that runs them."""
    original = seed_generator.global_seed_generator

    @functools.wraps(original)
    def of_replicas():
        context = tf.distribute.get_replica_context()
        if context is None or not isinstance(context.strategy.extended, HookedExtended):
            return original()
        strategy = context.strategy
        if len(strategy.extended.worker_devices) > 1:
            return strategy.extended.generator.get(lambda: _made_elsewhere(strategy, original))
        if lent_generator.of_this_thread(strategy) is None:
            lent_generator.set_of_this_thread(_made_elsewhere(strategy, original))
        return original()

    seed_generator.global_seed_generator = of_replicas


def _made_elsewhere(strategy: tf.distribute.Strategy, make):
    """Makes a generator for all replicas in a thread of its own: where no step is, or is traced."""

    def make_in_scope():
        with strategy.scope():
            return make()

    with futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(make_in_scope).result()


def existing() -> keras.Variable | None:
    """Returns the generator's state; None where nothing has drawn from it yet."""
    generator = lent_generator.of_this_thread()
    return None if generator is None else generator.state


def made() -> keras.Variable:
    """Returns the generator's state, of a new generator if there is none."""
    return seed_generator.global_seed_generator().state
