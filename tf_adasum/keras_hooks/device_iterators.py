"""Iterators of local devices don't tune themselves: ending one took up to a minute.

TensorFlow gives each local device an iterator of its own, with one buffer of a fixed length, and
tf.data a thread to tune each. A thread that is ended between two looks at its settings may sleep on
until the next one, for up to 60 s, and the end of `fit` waits for it. There is nothing to tune.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(multi_device_iterator_ops, "_create_device_dataset")


def install() -> None:
    """Switches the tuning off in `_create_device_dataset`; pipelines of users tune as before.

    For every strategy of this process: an iterator does not know which one it is for.
    """
    original = multi_device_iterator_ops._create_device_dataset

    @functools.wraps(original)
    def create_untuned(*args, **kwargs):
        options = tf.data.Options()
        options.autotune.enabled = False
        return original(*args, **kwargs).with_options(options)

    multi_device_iterator_ops._create_device_dataset = create_untuned
