"""allreduce of tensors that travel encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.compression.compression import Compression, work_dtype
from tf_adasum.collectives.compression.state import State
from tf_adasum.collectives.gradients import GradientError
from tf_adasum.collectives.operations import (
    as_tensors,
    issuing,
    name_of_dtype,
)
from tf_adasum.collectives.refusals import refusal, shown

# Weighted sums of what is decoded.
REDUCTIONS = ("adasum", "mean", "sum")


def compressed_allreduce(
    values: Sequence[Any],
    compression: Compression | None,
    state: State | None,
    reduction: str,
    communicator: Communicator,
    name: str | None,
) -> list[tf.Tensor]:
    """Reduces a list of tensors over all ranks, of which those that are long travel encoded.

    Args:
        values: tensors.
        compression: how.
        state: what was lost before; it becomes what is lost now. None: nothing is kept.
        reduction: "adasum", "mean" or "sum".
        communicator: whose ranks take part.
        name: as for `allreduce`.

    Returns:
        The results, bitwise the same on every rank.

    Raises:
        As `allreduce`.
    """
    _check(compression, state, reduction)
    tensors = as_tensors(values)
    encoded = [i for i, tensor in enumerate(tensors) if compression.encodes(tensor)]
    plain = [i for i in range(len(tensors)) if i not in set(encoded)]
    leaf = [tensors[i] for i in encoded]
    _check_state(leaf, state)
    results: list[Any] = list(tensors)
    if plain:
        plain_name = f"{name}/plain" if name and encoded else name
        as_they_are = [tensors[i] for i in plain]
        reduced = allreduce_replicas(
            [as_they_are], reduction, communicator, plain_name, name is None
        )
        for i, tensor in zip(plain, reduced):
            results[i] = tensor
    if communicator.size == 1:
        for i in encoded:
            results[i] = _alone(tensors[i])
    elif encoded:
        reduced = _reduced(leaf, compression, state, reduction, communicator, name)
        for i, tensor in zip(encoded, reduced):
            results[i] = tensor
    return results


def _reduced(
    tensors: Sequence[tf.Tensor],
    compression: Compression,
    state: State | None,
    reduction: str,
    communicator: Communicator,
    name: str | None,
) -> list[tf.Tensor]:
    by_dtype: dict[str, list[int]] = {}
    for place, tensor in enumerate(tensors):
        by_dtype.setdefault(work_dtype(tensor.dtype.name), []).append(place)
    results: list[Any] = [None] * len(tensors)
    for dtype, places in by_dtype.items():
        lost = Lost([], [])
        if state is not None:
            of_leaf = [state.residuals[place] for place in places]
            lost = Lost([of_leaf], [state.part_residuals[place] for place in places])
        reduced = encoded_allreduce_replicas(
            [[tensors[place] for place in places]],
            compression,
            lost,
            reduction,
            communicator,
            name_of_dtype(name, dtype, by_dtype),
        )
        for place, tensor in zip(places, reduced):
            results[place] = tensor
    return results


class Lost(NamedTuple):
    """Variables in host memory of what encoding has lost; empty where nothing is kept.

    Attributes:
        residuals: of each replica's tensors: [replica][tensor], of the tensors' shapes.
        part_residuals: of this rank's part of each result: vectors, as `State` makes them.
    """

    residuals: Sequence[Sequence[tf.Variable]]
    part_residuals: Sequence[tf.Variable]


def encoded_allreduce_replicas(  # noqa: PLR0913 (each is a choice of its own)
    leaves: Sequence[Sequence[tf.Tensor]],
    compression: Compression,
    lost: Lost,
    reduction: str,
    communicator: Communicator,
    name: str | None,
    *,
    replica_counts: Sequence[int] = (),
) -> list[tf.Tensor]:
    """Reduces tensors that all travel encoded, over all replicas of all ranks.

    Args:
        leaves: one list per local replica, each with the same number of floats of the same dtypes
            and shapes; float64 alone, or others together.
        compression: how they travel.
        lost: what was lost before; it becomes what is lost now.
        reduction: "adasum", "mean" or "sum".
        communicator: whose ranks take part; with the local replicas several leaves.
        name: as for `allreduce`.
        replica_counts: as for `allreduce_replicas`.

    Returns:
        One list of tensors: the reduction over all leaves.
    """
    dtype = work_dtype(leaves[0][0].dtype.name)
    residuals = [variable for of_leaf in lost.residuals for variable in of_leaf]
    inputs = [tf.cast(tensor, dtype) for leaf in leaves for tensor in leaf]
    with issuing(communicator, name, name is None) as (handle, attributes):
        reduced = native.ops.adasum_compressed_allreduce(
            handle,
            inputs,
            [variable.handle for variable in residuals],
            [variable.handle for variable in lost.part_residuals],
            num_tensors=len(leaves[0]),
            reduction=reduction,
            codec=compression.codec,
            replica_counts=list(replica_counts),
            **attributes,
        )
    return [tf.cast(tensor, like.dtype) for tensor, like in zip(reduced, leaves[0])]


def _check(compression: Any, state: Any, reduction: str) -> None:
    Compression.check(compression)
    if state is not None and not isinstance(state, State):
        expected = "an adasum.compression.State, or None, as state"
        raise TypeError(refusal(expected, shown(state), "Pass State(tensors, compression)."))
    check_reduction(reduction)


def check_reduction(reduction: str) -> None:
    """Raises ValueError for a reduction that is no weighted sum."""
    if reduction not in REDUCTIONS:
        expected = f"a reduction among {list(REDUCTIONS)} for tensors that travel encoded"
        raise ValueError(refusal(expected, repr(reduction), "Leave compression out."))


def _check_state(tensors: Sequence[tf.Tensor], state: State | None) -> None:
    if state is None:
        return
    expected = [(tensor.shape, work_dtype(tensor.dtype.name)) for tensor in tensors]
    received = [(residual.shape, residual.dtype.name) for residual in state.residuals]
    if expected != received:
        wanted = f"a state of tensors of shapes {[str(shape) for shape, _ in expected]}"
        given = f"one of shapes {[str(shape) for shape, _ in received]}, or of other dtypes"
        raise ValueError(refusal(wanted, given, "Pass State(tensors, compression)."))


@tf.custom_gradient
def _alone(tensor: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """What one rank gets, as it is; its gradient is refused as on several."""
    return tf.identity(tensor), _refuse_gradient


@tf.RegisterGradient("AdasumCompressedAllreduce")
def _refuse_gradient(*unused: Any) -> None:
    del unused
    expected = "a gradient through an allreduce of tensors that travel as they are"
    received = "one with compression, which has none"
    advice = "Take the gradient first, or leave compression out."
    raise GradientError(refusal(expected, received, advice))
