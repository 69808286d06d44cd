"""A tensor, or zeros in its place, as is known when the step runs: one node of the graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native


def zeros_if(is_zero: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Returns zeros where `is_zero`, else the value; it copies nothing.

    As `tf.cond(is_zero, lambda: tf.zeros_like(value), lambda: value)`, for which TensorFlow traces
    two functions: with hundreds of gradients a first step waits for that (docs/performance.md).

    Args:
        is_zero: scalar, bool, on the host.
        value: any shape, of a dtype with numbers or bool.

    Returns:
        A tensor with the value's shape and dtype, on its device.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.zeros_if import zeros_if
        >>> zeros_if(tf.constant(True), tf.constant([1.0, 2.0])).numpy().tolist()
        [0.0, 0.0]
    """
    return native.ops.adasum_zeros_if(is_zero, value)


@tf.RegisterGradient("AdasumZerosIf")
def _of_zeros_if(op: Any, upstream: tf.Tensor) -> list[tf.Tensor | None]:
    return [None, zeros_if(op.inputs[0], upstream)]
