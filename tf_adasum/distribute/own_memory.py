"""Batches that lie in the program's own arrays are copied before replicas take their rows of them.

A tensor that a Python function returns to `tf.data` is the array itself where that is aligned.
TensorFlow computes on no such tensor in place, but it does on a slice of one, which it takes for
its own: `Rescaling` of a replica's rows would change the array that a generator yielded.
"""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.distribute.data_order import nodes, operation_types

_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def in_own_memory(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same data, in memory of TensorFlow's wherever Python functions make some of them."""
    if not any(type_ in _PYTHON for node in nodes(dataset) for type_ in operation_types(node)):
        return dataset
    # `map` hands over what is in a tuple, of one as well, but a named one as it is.
    is_tuple = type(dataset.element_spec) is tuple

    def copied(*elements):
        copies = tf.nest.map_structure(_copy, elements, expand_composites=True)
        return copies if is_tuple else copies[0]

    return dataset.map(copied)


def _copy(tensor: tf.Tensor) -> tf.Tensor:
    # Strings are copied on the way from Python, and a variant is of TensorFlow's making.
    if tensor.dtype in (tf.string, tf.variant, tf.resource):
        return tensor
    return tf.raw_ops.DeepCopy(x=tensor)
