"""One rank alone may save a model or load weights, inside of the strategy's scope too.

Keras makes a sample optimizer, once, to learn which attributes are not to be saved. Its variables
would wait for the other ranks.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from keras.src.saving import saving_lib

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(saving_lib, "get_attr_skipset")


def install() -> None:
    """Lets `saving_lib.get_attr_skipset` make variables without other ranks."""
    original = saving_lib.get_attr_skipset

    @functools.wraps(original)
    def get_alone(obj_type):
        extended = tf.distribute.get_strategy().extended
        if not isinstance(extended, HookedExtended):
            return original(obj_type)
        with extended.alone():
            return original(obj_type)

    saving_lib.get_attr_skipset = get_alone
