"""Gradients of the collectives: what flows back through one is a collective as well.

With y = sum of x_k over the ranks k, and a loss l_k(y) on each, the gradient of the sum of all
losses is the sum of dl_k/dy on every rank; for the mean it is the mean. A broadcast sends back the
sum to its root. All ranks must take the gradient alike, as they call the collective alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native


class GradientError(LookupError):
    """A reduction has no gradient that its collective could send back."""

    # TensorFlow's AutoGraph would turn it into an error of its own, which is no LookupError.
    ag_pass_through = True


def _refuse_adasum() -> None:
    raise GradientError(
        "Expected a gradient through allreduce with reduction 'sum' or 'mean'. Received: 'adasum', "
        "which has none: its result depends on products of all ranks' tensors. Take the gradient "
        "first and allreduce it, or use 'mean', or tf.stop_gradient what enters."
    )


@tf.RegisterGradient("AdasumAllreduce")
def _of_allreduce(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    reduction = _text(op.get_attr("reduction"))
    if reduction == "adasum":
        _refuse_adasum()
    handle, *inputs = op.inputs
    dtype = inputs[0].dtype
    if not dtype.is_floating:
        return [None] * len(op.inputs)
    name = _text(op.get_attr("tensor_name")) or f"an allreduce({reduction}) of {dtype.name}"
    with tf.device(handle.device):
        reduced = native.ops.adasum_allreduce(
            handle,
            [tf.convert_to_tensor(gradient) for gradient in upstream],
            num_tensors=len(upstream),
            reduction=reduction,
            tensor_name=f"gradient of {name}",
            caller_waits=tf.executing_eagerly(),
        )
    num_replicas = len(inputs) // len(upstream)
    if reduction == "mean":
        reduced = [gradient / num_replicas for gradient in reduced]
    return [None, *list(reduced) * num_replicas]


@tf.custom_gradient
def adasum_of_one(*tensors: tf.Tensor) -> Any:
    """Returns copies, and has no gradient: one rank refuses what several would."""

    def gradient(*upstream):
        del upstream
        _refuse_adasum()

    return [tf.identity(tensor) for tensor in tensors], gradient


def sent_to_root(upstream: Sequence[tf.Tensor], is_root: bool, add_up: Any) -> list:
    """The gradient of a broadcast: the sum over all ranks on the root, zero elsewhere.

    Args:
        upstream: gradients of what was received.
        is_root: whether this rank is the root.
        add_up: sums a list of floating tensors over the ranks.

    Returns:
        One gradient for each; None where the dtype has none.
    """
    indices = [i for i, x in enumerate(upstream) if x.dtype.is_floating or x.dtype.is_complex]
    dense = [tf.convert_to_tensor(upstream[index]) for index in indices]
    sums = add_up([_real(gradient) for gradient in dense])
    gradients: list = [None] * len(upstream)
    for index, gradient, total in zip(indices, dense, sums):
        back = tf.bitcast(total, gradient.dtype) if gradient.dtype.is_complex else total
        gradients[index] = back if is_root else tf.zeros_like(gradient)
    return gradients


def _real(tensor: tf.Tensor) -> tf.Tensor:
    """A complex tensor as pairs of real numbers, any other as it is."""
    return tf.bitcast(tensor, tensor.dtype.real_dtype) if tensor.dtype.is_complex else tensor


def _text(attribute: str | bytes) -> str:
    return attribute.decode() if isinstance(attribute, bytes) else attribute
