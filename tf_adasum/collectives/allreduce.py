"""allreduce: the tensors of all ranks become one, eager and inside tf.function."""

import math
import operator
from collections.abc import Sequence
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
from tf_adasum.collectives.sparse_allreduce import is_sparse, sparse_allreduce_replicas


def allreduce(
    tensors: Any,
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
    local_reduction: str = "adasum",
) -> Any:
    """Reduces tensors over all ranks, each tensor by itself.

    For `adasum`, two ranks' tensors a and b become
    (1 - a.b / (2|a|^2)) a + (1 - a.b / (2|b|^2)) b, pairwise in a tree for more ranks.

    Args:
        tensors: a tensor or a (nested) structure of tensors, any shapes. float16, bfloat16,
            float32 and float64; for all but "adasum" also int32, int64 and bool.
            `tf.IndexedSlices` with a dense_shape stay such, by "adasum", "sum" or "mean": rows
            that a rank lacks are zero to it. There is no gradient through them.
        reduction: "adasum", "sum", "mean", "min", "max" or "product". Element by element but for
            "adasum"; a NaN of any rank shows in all.
        communicator: whose ranks take part; all ranks if None.
        name: equal on all ranks for what belongs together; inside a tf.function, ranks may issue
            operations with different names in different orders. If None a name is made from the
            reduction, dtypes and shapes, and all ranks must issue such operations in one order.
        local_reduction: "sum" or "mean": the ranks of a host are reduced by that first, and
            `reduction`, which must be "adasum", combines the hosts' results, hosts in the order of
            their lowest rank. "adasum": one tree over all ranks. With one host the local
            reduction is the whole.

    Returns:
        The same structure; bitwise the same values on every rank. Of `tf.IndexedSlices` the rows
        that any rank has, in ascending order and each index once.

    Raises:
        tf.errors.InvalidArgumentError: if ranks pass different dtypes, shapes, counts or names.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended.
        LookupError: if a gradient is asked for through another reduction than "sum" and "mean". All
            ranks together get the gradient of the sum of their losses: through "sum" the sum,
            through "mean" the mean.
        ValueError: for an unknown reduction, or a local one beside another than "adasum"; for
            `tf.IndexedSlices` without a dense_shape, by another reduction, or by a local one.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradient = tf.constant([1.0, 2.0])
        >>> adasum.allreduce(gradient).numpy().tolist()  # one rank: Adasum of one is itself
        [1.0, 2.0]

    Source: Maleki et al., MLSys 2021, section 3.
    """
    communicator = checked_group(communicator, name)
    flat = tf.nest.flatten(tensors)
    sparse = [i for i, value in enumerate(flat) if is_sparse(value)]
    if sparse:
        reduced = _allreduce_mixed(flat, sparse, reduction, communicator, name, local_reduction)
        return tf.nest.pack_sequence_as(tensors, reduced)
    reduced = allreduce_replicas(
        [flat], reduction, communicator, name, name is None, local_reduction
    )
    is_flat = isinstance(tensors, list) and len(tensors) == len(flat)
    if is_flat and all(map(operator.is_, tensors, flat)):
        return reduced  # packing takes longer than reducing small tensors does
    return tf.nest.pack_sequence_as(tensors, reduced)


def allreduce_replicas(
    leaves: Sequence[Sequence[tf.Tensor]],
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
    ordered: bool = True,
    local_reduction: str = "adasum",
) -> list[tf.Tensor]:
    """Reduces over the replicas of this process and those of all other ranks at once.

    Args:
        leaves: one list per local replica, each with the same number of tensors of the same
            dtypes and shapes. Replica r of rank k is leaf k * len(leaves) + r of the tree.
        reduction: as for `allreduce`.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.
        ordered: inside a tf.function, whether it keeps its place among the other ordered ones.
        local_reduction: as for `allreduce`, over all replicas of a host.

    Returns:
        One list of tensors: the reduction over all leaves.

    Raises:
        As `allreduce`.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.allreduce import allreduce_replicas
        >>> replicas = [[tf.constant([3.0, 0.0])], [tf.constant([0.0, 4.0])]]
        >>> allreduce_replicas(replicas)[0].numpy().tolist()  # orthogonal: added
        [3.0, 4.0]
    """
    how = _How(reduction, checked_group(communicator, name), name, ordered, local_reduction)
    return _reduced(leaves, how)


def measured_allreduce_replicas(
    leaves: Sequence[Sequence[tf.Tensor]],
    communicator: Communicator | None = None,
    name: str | None = None,
    ordered: bool = True,
    local_reduction: str = "adasum",
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

    Returns:
        What `allreduce_replicas` returns, the same bits; and a float64 tensor [num_tensors, 2] of
        both numbers, the same bits on all ranks. NaN where they are not measured: on a GPU,
        with a local reduction on a single host, and for a single replica without others.

    Raises:
        As `allreduce`.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.allreduce import measured_allreduce_replicas
        >>> replicas = [[tf.constant([3.0, 0.0])], [tf.constant([3.0, 0.0])]]
        >>> _, norms = measured_allreduce_replicas(replicas)
        >>> norms.numpy().tolist()  # parallel: half of the sum is kept
        [[9.0, 18.0]]
    """
    parts: list[tuple[Sequence[int], tf.Tensor]] = []
    how = _How("adasum", checked_group(communicator, name), name, ordered, local_reduction)
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


def _reduced(
    leaves: Sequence[Sequence[tf.Tensor]], how: _How, norms_of: list | None = None
) -> list[tf.Tensor]:
    """The tensors; unless it is None, `norms_of` gets the norms of those with certain indices."""
    reduction, communicator, name, ordered, local_reduction = how
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
    keeps_order = ordered or is_eager  # calls are in order by themselves
    is_for_gpu = reductions.ALL[reduction].on_gpu
    device = (exchange_device(replicas, local_reduction) if is_for_gpu else None) or "CPU:0"
    handle = communicator.handle_on(device) if keeps_order else communicator.new_handle(device)
    measures = norms_of is not None and device == "CPU:0"
    results: list[Any] = [None] * len(replicas[0])
    for dtype, indices in by_dtype.items():
        part = [[leaf[index] for index in indices] for leaf in replicas]
        op_name = name_of_dtype(name, dtype, by_dtype) or UNNAMED
        with interruptible(), tf.device(device):
            op = native.ops.adasum_measured_allreduce if measures else native.ops.adasum_allreduce
            reduced = op(
                handle,
                [tensor for leaf in part for tensor in leaf],
                num_tensors=len(indices),
                reduction=reduction,
                local_reduction=local_reduction,
                tensor_name=op_name,
                caller_waits=is_eager,
            )
            if measures:
                reduced, found = reduced
                norms_of.append((indices, found))
        for index, tensor, source in zip(indices, reduced, part[0]):
            if not is_eager:
                tensor.set_shape(source.shape)
            results[index] = tensor
    return results


def _allreduce_mixed(
    flat: Sequence[Any],
    sparse: Sequence[int],
    reduction: str,
    communicator: Communicator | None,
    name: str | None,
    local_reduction: str,
) -> list[Any]:
    """What `allreduce` does where the values at the places `sparse` are `tf.IndexedSlices`."""
    reductions.check_stages(reduction, local_reduction)
    if local_reduction != "adasum":
        received = f"tf.IndexedSlices and local_reduction={local_reduction!r}"
        advice = "Pass tf.convert_to_tensor(slices)."
        raise ValueError(refusal("dense tensors for a local reduction", received, advice))
    rows = [flat[i] for i in sparse]
    reduced = list(flat)
    dense = [i for i in range(len(flat)) if i not in sparse]
    if dense:
        tensors = allreduce_replicas(
            [[flat[i] for i in dense]], reduction, communicator, name, name is None
        )
        for i, tensor in zip(dense, tensors):
            reduced[i] = tensor
    rows_name = f"{name}/rows" if name and dense else name
    slices = sparse_allreduce_replicas([rows], reduction, communicator, rows_name, name is None)
    for i, of_tensor in zip(sparse, slices):
        reduced[i] = of_tensor
    return reduced


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
