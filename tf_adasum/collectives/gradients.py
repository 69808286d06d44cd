"""Gradients of the collectives: what flows back through one is a collective as well.

With y = sum of x_k over the ranks k, and a loss l_k(y) on each, the gradient of the sum of all
losses is the sum of dl_k/dy on every rank; for the mean it is the mean. A broadcast sends back the
sum to its root, a gather to each rank the sum of what all have for its rows, an alltoall every row
to where it came from, a reduce-scatter the shares to all. All ranks must take the gradient alike,
as they call the collective alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.operations import interruptible
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.zeros_if import zeros_if


class GradientError(LookupError):
    """A reduction has no gradient that its collective could send back."""

    # TensorFlow's AutoGraph would turn it into an error of its own, which is no LookupError.
    ag_pass_through = True


# Reductions that a gradient flows back through.
DIFFERENTIABLE = ("mean", "sum")
_WHY_NONE = {
    "adasum": "its result depends on products of all ranks' tensors",
    "max": "no rank knows whose element the result is",
    "min": "no rank knows whose element the result is",
    "product": "it depends on products of the other ranks' tensors",
}


def _refuse(reduction: str, collective: str = "allreduce") -> None:
    expected = f"a gradient through {collective} with reduction 'sum' or 'mean'"
    received = f"{reduction!r}, which has none: {_WHY_NONE[reduction]}"
    advice = (
        "Take the gradient first and allreduce it, or use 'mean', or tf.stop_gradient what enters."
    )
    raise GradientError(refusal(expected, received, advice))


@tf.RegisterGradient("AdasumAllreduce")
def _of_allreduce(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    reduction = _text(op.get_attr("reduction"))
    if reduction not in DIFFERENTIABLE:
        _refuse(reduction)
    handle, *inputs = op.inputs
    dtype = inputs[0].dtype
    if not dtype.is_floating:
        return [None] * len(op.inputs)
    name = _text(op.get_attr("tensor_name")) or f"an allreduce({reduction}) of {dtype.name}"
    with interruptible(), tf.device(handle.device):
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
        # The mean over P ranks becomes that over N replicas.
        counts = op.get_attr("replica_counts") or [num_replicas]
        reduced = [gradient / (sum(counts) / len(counts)) for gradient in reduced]
    return [None, *list(reduced) * num_replicas]


@tf.RegisterGradient("AdasumMeasuredAllreduce")
def _of_measured_allreduce(op: Any, *upstream: tf.Tensor) -> None:
    del op, upstream
    _refuse("adasum")


@tf.RegisterGradient("AdasumBroadcast")
def _of_broadcast(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    """The sum over all ranks on the root, zero elsewhere."""
    handle, *inputs = op.inputs
    name = _text(op.get_attr("tensor_name")) or f"a broadcast from {op.get_attr('root')}"
    chosen = [i for i, tensor in enumerate(inputs) if _has_gradient(tensor)]
    sums = _sums(handle, [upstream[i] for i in chosen], f"gradient of {name}")
    gradients: list[tf.Tensor | None] = [None] * len(op.inputs)
    for i, total in zip(chosen, sums):
        # Not tf.zeros_like: a second derivative goes back through `total` on every rank or none.
        gradients[1 + i] = total if op.get_attr("is_root") else zeros_if(tf.constant(True), total)
    return gradients


@tf.RegisterGradient("AdasumAllgather")
def _of_allgather(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    handle, *inputs = op.inputs
    begins = op.outputs[-1]
    name = _text(op.get_attr("tensor_name")) or "an allgather"
    chosen = [i for i, tensor in enumerate(inputs) if _has_gradient(tensor)]
    sums = _sums(handle, [upstream[i] for i in chosen], f"gradient of {name}")
    gradients: list[tf.Tensor | None] = [None] * len(op.inputs)
    for i, total in zip(chosen, sums):
        num_rows = tf.shape(inputs[i], tf.int64)[0]
        gradients[1 + i] = total[begins[i] : begins[i] + num_rows]
    return gradients


@tf.RegisterGradient("AdasumAlltoall")
def _of_alltoall(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    """Every row goes back to where it came from."""
    handle, _, *inputs = op.inputs
    chosen = [i for i, tensor in enumerate(inputs) if _has_gradient(tensor)]
    gradients: list[tf.Tensor | None] = [None] * len(op.inputs)
    if not chosen:
        return gradients
    name = _text(op.get_attr("tensor_name")) or "an alltoall"
    with interruptible(), tf.device(handle.device):
        returned, _ = native.ops.adasum_alltoall(
            handle,
            op.outputs[-1],
            [tf.convert_to_tensor(upstream[i]) for i in chosen],
            tensor_name=f"gradient of {name}",
            caller_waits=tf.executing_eagerly(),
        )
    for i, gradient in zip(chosen, returned):
        gradients[2 + i] = gradient
    return gradients


@tf.RegisterGradient("AdasumReduceScatter")
def _of_reduce_scatter(op: Any, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    """All ranks' shares together."""
    reduction = _text(op.get_attr("reduction"))
    if reduction not in DIFFERENTIABLE:
        _refuse(reduction, "reduce_scatter")
    handle, *inputs = op.inputs
    if not inputs[0].dtype.is_floating:
        return [None] * len(op.inputs)
    name = _text(op.get_attr("tensor_name")) or f"a reduce_scatter({reduction})"
    with interruptible(), tf.device(handle.device):
        gathered, _ = native.ops.adasum_allgather(
            handle,
            [tf.convert_to_tensor(gradient) for gradient in upstream],
            tensor_name=f"gradient of {name}",
            caller_waits=tf.executing_eagerly(),
        )
    if reduction == "mean":
        gathered = [gradient / op.get_attr("num_ranks") for gradient in gathered]
    return [None, *gathered]


def _sums(handle: tf.Tensor, tensors: Sequence[Any], name: str) -> list[tf.Tensor]:
    """Sums floating and complex tensors over the ranks, by one op for each dtype."""
    dense = [tf.convert_to_tensor(tensor) for tensor in tensors]
    sums: list[Any] = [None] * len(dense)
    for dtype in dict.fromkeys(tensor.dtype for tensor in dense):
        chosen = [i for i, tensor in enumerate(dense) if tensor.dtype == dtype]
        with interruptible(), tf.device(handle.device):
            reduced = native.ops.adasum_allreduce(
                handle,
                [_real(dense[i]) for i in chosen],
                num_tensors=len(chosen),
                reduction="sum",
                tensor_name=f"{name}/{dtype.name}",
                caller_waits=tf.executing_eagerly(),
            )
        for i, total in zip(chosen, reduced):
            sums[i] = tf.complex(*tf.unstack(total, 2, axis=-1)) if dtype.is_complex else total
    return sums


def without_gradient(reduction: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns copies that have no gradient: one rank refuses what several would."""

    @tf.custom_gradient
    def copy(*tensors):
        def gradient(*upstream):
            del upstream
            _refuse(reduction)

        return [tf.identity(tensor) for tensor in tensors], gradient

    return list(copy(*tensors)) if tensors else []


def _has_gradient(tensor: tf.Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def _real(tensor: tf.Tensor) -> tf.Tensor:
    """A complex tensor as pairs of real numbers, any other as it is."""
    if not tensor.dtype.is_complex:
        return tensor
    # Not tf.bitcast, which has no gradient: there may be a second derivative.
    return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)


def _text(attribute: str | bytes) -> str:
    return attribute.decode() if isinstance(attribute, bytes) else attribute
