"""Replicas on the CPUs of one process take their batches from one plain iterator.

TensorFlow's iterator over several devices has one of its own for each of them, with functions that
are traced anew and call the host; on CPUs nothing is gained by it.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.distribute import input_lib

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(input_lib, "_SingleWorkerDatasetIteratorBase", "_should_use_multi_device_iterator")
_Iterator = input_lib._SingleWorkerDatasetIteratorBase
# What takes a batch for each device, and what takes one from the plain iterator.
_METHODS = {"get_next_as_list": "get_next", "get_next_as_optional_list": "get_next_as_optional"}
require_hooks(_Iterator, *_METHODS)
require_reads(_Iterator, "__init__", "_devices", "_options", "_worker")
require_reads(_Iterator, "get_next_as_list", "_iterator")


def install() -> None:
    """Lets a plain iterator give each of several devices a batch, in the order of the devices."""
    for name, of_one in _METHODS.items():
        setattr(_Iterator, name, _for_each_device(getattr(_Iterator, name), of_one))


def _for_each_device(original, of_one: str):
    @functools.wraps(original)
    def take(self, *args, **kwargs):
        if len(self._devices) == 1 or input_lib._should_use_multi_device_iterator(self._options):
            return original(self, *args, **kwargs)
        with tf.device(self._worker):
            return [getattr(self._iterator, of_one)() for _ in self._devices]

    return take
