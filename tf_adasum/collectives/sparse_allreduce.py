"""allreduce of `tf.IndexedSlices`: the rows that any rank has travel, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gradients import GradientError
from tf_adasum.collectives.operations import (
    check_dtypes,
    indices_by_dtype,
    issuing,
    name_of_dtype,
)
from tf_adasum.collectives.refusals import refusal, shown

# With these a row that a replica lacks counts as zeros, and may be left out.
REDUCTIONS = ("adasum", "mean", "sum")


def is_sparse(value: Any) -> bool:
    """Returns whether the value is `tf.IndexedSlices`."""
    # The usual case first: it is asked for each of hundreds of gradients.
    return not isinstance(value, tf.Tensor) and isinstance(value, tf.IndexedSlices)


def sparse_allreduce_replicas(
    leaves: Sequence[Sequence[tf.IndexedSlices]],
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
    ordered: bool = True,
    *,
    replica_counts: Sequence[int] = (),
) -> list[tf.IndexedSlices]:
    """Reduces rows over the replicas of this process and those of all other ranks at once.

    The result is that of the dense tensors, in which rows that a replica lacks are zero and rows
    of one index are added up: it has the rows that any replica has. For Adasum the inner products
    are those of whole tensors.

    Args:
        leaves: one list per local replica, each with the same number of `tf.IndexedSlices` with a
            dense_shape. values have the dtypes of `allreduce`, shape [rows, ...]; how many rows,
            also 0, is each replica's own. Rows on a GPU are copied to the host and back.
        reduction: "adasum", "mean" or "sum".
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.
        ordered: as for `allreduce_replicas`.
        replica_counts: as for `allreduce_replicas`.

    Returns:
        One list: rows in ascending order of their indices (int64), each index once; bitwise the
        same on every rank.

    Raises:
        tf.errors.InvalidArgumentError: on all ranks, if one passes an index that is none of a row
            of dense_shape, or if they pass different dtypes, shapes, counts or names.
        ValueError: for slices without a dense_shape, indices that are no whole numbers, or another
            reduction.
        Others: as `allreduce`.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.sparse_allreduce import sparse_allreduce_replicas
        >>> rows = [
        ...     [tf.IndexedSlices(tf.constant([[2.0, 1.0]]), [row], dense_shape=[5, 2])]
        ...     for row in (3, 1)
        ... ]  # of two replicas; orthogonal, and so added
        >>> (reduced,) = sparse_allreduce_replicas(rows)
        >>> reduced.indices.numpy().tolist(), reduced.values.numpy().tolist()
        ([1, 3], [[2.0, 1.0], [2.0, 1.0]])

    Source: Maleki et al., MLSys 2021, section 3, for Adasum.
    """
    communicator = checked_group(communicator, name)
    for leaf in leaves:
        check_slices(leaf, reduction)
    by_dtype = indices_by_dtype(leaves[0])
    results: list[Any] = [None] * len(leaves[0])
    for dtype, places in by_dtype.items():
        part = [leaf[place] for leaf in leaves for place in places]
        shapes = [tf.convert_to_tensor(leaves[0][place].dense_shape) for place in places]
        op_name = name_of_dtype(name, dtype, by_dtype)
        with issuing(communicator, op_name, ordered) as (handle, attributes):
            indices, values = native.ops.adasum_sparse_allreduce(
                handle,
                tf.stack([tf.cast(shape[0], tf.int64) for shape in shapes]),
                [tf.cast(slices.indices, tf.int64) for slices in part],
                [slices.values for slices in part],
                num_tensors=len(places),
                reduction=reduction,
                replica_counts=list(replica_counts),
                **attributes,
            )
        for place, shape, of_indices, of_values in zip(places, shapes, indices, values):
            results[place] = tf.IndexedSlices(of_values, of_indices, shape)
    return results


def check_slices(leaf: Sequence[tf.IndexedSlices], reduction: str) -> None:
    """Checks what needs no other rank.

    Args:
        leaf: of one replica.
        reduction: of the slices.

    Raises:
        As `sparse_allreduce_replicas`.
    """
    _check_reduction(reduction)
    _check_shapes(leaf)
    check_dtypes(reduction, indices_by_dtype(leaf))


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        expected = (
            f"a reduction among {list(REDUCTIONS)} for tf.IndexedSlices, in which rows that a "
            "replica lacks count as zeros"
        )
        advice = "Pass tf.convert_to_tensor(slices)."
        raise ValueError(refusal(expected, repr(reduction), advice))


def _check_shapes(leaf: Sequence[tf.IndexedSlices]) -> None:
    for slices in leaf:
        # The values give the shape of a row; the op compares it on all ranks.
        shape = None if slices.dense_shape is None else tf.convert_to_tensor(slices.dense_shape)
        if shape is None or shape.shape.rank not in (1, None) or shape.shape == [0]:
            expected = "tf.IndexedSlices with a dense_shape, which says what they are slices of"
            advice = "Pass tf.IndexedSlices(values, indices, dense_shape)."
            raise ValueError(refusal(expected, shown(slices), advice))
        indices = tf.convert_to_tensor(slices.indices)
        if not (indices.dtype.is_integer or indices.shape == [0]):  # an empty list has floats
            expected = "whole numbers as indices of tf.IndexedSlices"
            raise ValueError(refusal(expected, indices.dtype.name, "Cast them to int64."))
        known = tf.get_static_value(shape)
        of_values = tf.TensorShape(slices.values.shape)
        if known is not None and not of_values[1:].is_compatible_with(known[1:]):
            expected = f"values of shape [rows, ...] of tf.IndexedSlices of shape {known.tolist()}"
            advice = "Correct values or dense_shape."
            raise ValueError(refusal(expected, str(of_values), advice))


@tf.RegisterGradient("AdasumSparseAllreduce")
def _refuse_gradient(op: Any, *upstream: Any) -> None:
    del op, upstream
    expected = "a gradient through an allreduce of dense tensors"
    received = "tf.IndexedSlices, whose allreduce has none"
    advice = "Take the gradient first, or pass tf.convert_to_tensor(slices)."
    raise GradientError(refusal(expected, received, advice))
