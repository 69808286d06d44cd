"""Dense tensors of all replicas of all ranks become one."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_adasum.collectives import gradients, native, reductions
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.device import exchange_device
from tf_adasum.collectives.operations import (
    UNNAMED,
    as_tensors,
    check_dtypes,
    indices_by_dtype,
    interruptible,
    name_of_dtype,
)
from tf_adasum.collectives.refusals import refusal


def allreduce_replicas(  # noqa: PLR0913 (each is a choice of its own)
    leaves: Sequence[Sequence[tf.Tensor]],
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
    ordered: bool = True,
    local_reduction: str = "adasum",
    *,
    replica_counts: Sequence[int] = (),
) -> list[tf.Tensor]:
    """Reduces over the replicas of this process and those of all other ranks at once.

    Args:
        leaves: one list per local replica, each with the same number of tensors of the same
            dtypes and shapes. Those of a rank are leaves of the tree that follow each other.
        reduction: as for `allreduce`.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.
        ordered: inside a tf.function, whether it keeps its place among the other ordered ones;
            else it does among those of its name.
        local_reduction: as for `allreduce`, over all replicas of a host.
        replica_counts: how many replicas each rank has, the same list on all ranks; empty where
            each has as many as this one.

    Returns:
        One list of tensors: the reduction over all leaves.

    Raises:
        As `allreduce`.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
        >>> replicas = [[tf.constant([3.0, 0.0])], [tf.constant([0.0, 4.0])]]
        >>> allreduce_replicas(replicas)[0].numpy().tolist()  # orthogonal: added
        [3.0, 4.0]
    """
    group = checked_group(communicator, name)
    how = _How(reduction, group, name, ordered, local_reduction, list(replica_counts))
    return _reduced(leaves, how)


def measured_allreduce_replicas(
    leaves: Sequence[Sequence[tf.Tensor]],
    communicator: Communicator | None = None,
    name: str | None = None,
    ordered: bool = True,
    local_reduction: str = "adasum",
    *,
    replica_counts: Sequence[int] = (),
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Reduces by Adasum as `allreduce_replicas`, and measures how much of the leaves is kept.

    |Adasum(x_1, .., x_N)|^2 and |x_1|^2 + .. + |x_N|^2 of each tensor come from the dot products
    that Adasum has anyway: no further pass over the tensors. In the small floats they are those of
    the result before it is rounded, whose own terms were rounded on the way. All ranks must
    measure alike.

    Args:
        leaves: as for `allreduce_replicas`; floats.
        communicator: as there.
        name: as there.
        ordered: as there.
        local_reduction: as there; for "sum" or "mean" the hosts' results are the x_i.
        replica_counts: as there.

    Returns:
        What `allreduce_replicas` returns, the same bits; and a float64 tensor [num_tensors, 2] of
        both numbers, the same bits on all ranks. NaN where they are not measured: on a GPU,
        with a local reduction on a single host, and for a single replica without others.

    Raises:
        As `allreduce`.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.allreduce_replicas import measured_allreduce_replicas
        >>> replicas = [[tf.constant([3.0, 0.0])], [tf.constant([3.0, 0.0])]]
        >>> _, norms = measured_allreduce_replicas(replicas)
        >>> norms.numpy().tolist()  # parallel: half of the sum is kept
        [[9.0, 18.0]]
    """
    parts: list[tuple[Sequence[int], tf.Tensor]] = []
    group = checked_group(communicator, name)
    how = _How("adasum", group, name, ordered, local_reduction, list(replica_counts))
    reduced = _reduced(leaves, how, parts)
    return reduced, _joined_norms(parts, len(reduced))


def _joined_norms(parts: Sequence[tuple[Sequence[int], tf.Tensor]], num_tensors: int) -> tf.Tensor:
    """One tensor of what was found for the tensors of each dtype, by their indices."""
    if not parts:
        return tf.fill([num_tensors, 2], tf.constant(math.nan, tf.float64))
    if len(parts) == 1:
        return parts[0][1]
    order = [index for indices, _ in parts for index in indices]
    with tf.device("CPU:0"):
        return tf.gather(tf.concat([norms for _, norms in parts], axis=0), np.argsort(order))


class _How(NamedTuple):
    """The arguments of `allreduce_replicas` but the tensors."""

    reduction: str
    communicator: Communicator
    name: str | None
    ordered: bool
    local_reduction: str
    replica_counts: list[int]


def _reduced(
    leaves: Sequence[Sequence[tf.Tensor]], how: _How, norms_of: list | None = None
) -> list[tf.Tensor]:
    """The tensors; unless it is None, `norms_of` gets the norms of those with certain indices."""
    reduction, communicator, name, ordered, local_reduction, _ = how
    reductions.check_stages(reduction, local_reduction)
    replicas = [as_tensors(leaf) for leaf in leaves]
    _check_replicas(replicas)
    by_dtype = indices_by_dtype(replicas[0])
    check_dtypes(reduction, by_dtype)
    if communicator.size * len(replicas) == 1:
        if reduction not in gradients.DIFFERENTIABLE:
            return gradients.without_gradient(reduction, replicas[0])
        return [tf.identity(tensor) for tensor in replicas[0]]
    is_eager = tf.executing_eagerly()
    is_for_gpu = reductions.ALL[reduction].on_gpu
    device = (exchange_device(replicas, local_reduction) if is_for_gpu else None) or "CPU:0"
    # Eager calls are in order by themselves.
    handle = communicator.handle_on(device, None if ordered or is_eager else name)
    measures = norms_of is not None and device == "CPU:0"
    op = native.ops.adasum_measured_allreduce if measures else native.ops.adasum_allreduce
    results: list[Any] = [None] * len(replicas[0])
    for dtype, indices in by_dtype.items():
        part = [[leaf[index] for index in indices] for leaf in replicas]
        op_name = name_of_dtype(name, dtype, by_dtype) or UNNAMED
        with interruptible(), tf.device(device):
            reduced = _called(op, handle, part, how, op_name)
        if measures:
            reduced, found = reduced
            norms_of.append((indices, found))
        for index, tensor, source in zip(indices, reduced, part[0]):
            if not is_eager:
                tensor.set_shape(source.shape)
            results[index] = tensor
    return results


def _called(op: Callable, handle, leaves: list[list], how: _How, tensor_name: str):
    """What the op makes of tensors of one dtype, a list for each replica."""
    return op(
        handle,
        [tensor for leaf in leaves for tensor in leaf],
        num_tensors=len(leaves[0]),
        reduction=how.reduction,
        local_reduction=how.local_reduction,
        tensor_name=tensor_name,
        caller_waits=tf.executing_eagerly(),
        replica_counts=how.replica_counts,
    )


def _check_replicas(replicas: Sequence[Sequence[tf.Tensor]]) -> None:
    if not replicas:
        expected = "the tensors of at least one replica"
        raise ValueError(refusal(expected, "none", "Pass a list for each replica."))
    first = [tensor.dtype for tensor in replicas[0]]
    for index, leaf in enumerate(replicas[1:], start=1):
        dtypes = [tensor.dtype for tensor in leaf]
        if dtypes != first:
            expected = (
                f"the tensors of every replica to have the dtypes {[each.name for each in first]}"
            )
            received = f"{[each.name for each in dtypes]} on replica {index}"
            raise ValueError(refusal(expected, received, "Pass equal lists."))
