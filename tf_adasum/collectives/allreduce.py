"""allreduce: the tensors of all ranks become one, eager and inside tf.function."""

import operator
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import reductions
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.compressed_allreduce import compressed_allreduce
from tf_adasum.collectives.compression import Compression, State
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.sparse_allreduce import (
    check_slices,
    is_sparse,
    sparse_allreduce_replicas,
)
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def allreduce(  # noqa: PLR0913 (one function for all that tensors are reduced by)
    tensors: Any,
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
    local_reduction: str = "adasum",
    *,
    compression: Compression | None = None,
    state: State | None = None,
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
        compression: how floats travel, such as `adasum.compression.Sign()`; None: as they are.
            Adasum's weights are those of what has travelled. There is no gradient through it.
        state: an `adasum.compression.State` of these tensors: what encoding loses of a tensor is
            added to the next one (error feedback). None: it is lost.

    Returns:
        The same structure; bitwise the same values on every rank. Of `tf.IndexedSlices` the rows
        that any rank has, in ascending order and each index once.

    Raises:
        tf.errors.InvalidArgumentError: if ranks pass different dtypes, shapes, counts or names, or
            for a dtype that the reduction does not take.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        LookupError: if a gradient is asked for through another reduction than "sum" and "mean". All
            ranks together get the gradient of the sum of their losses: through "sum" the sum,
            through "mean" the mean.
        ValueError: for an unknown reduction, or a local one beside another than "adasum"; for
            `tf.IndexedSlices` without a dense_shape, with indices that are no whole numbers, by
            another reduction, or by a local one;
            for a compression beside either, or by another reduction than "adasum", "mean", "sum".
        TypeError: for what is no tensor, communicator, codec or state, or a name that is no str.

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
    if compression is not None or state is not None:
        _check_compressible(sparse, local_reduction)
        reduced = compressed_allreduce(flat, compression, state, reduction, communicator, name)
    elif sparse:
        reduced = _allreduce_mixed(flat, sparse, reduction, communicator, name, local_reduction)
    else:
        reduced = allreduce_replicas(
            [flat], reduction, communicator, name, name is None, local_reduction
        )
    if not flat and communicator.size > 1:
        # Takes part: ranks that have tensors hear of it, and don't meet this one's next call. After
        # the above, which of no tensors exchanges nothing but checks the arguments.
        allreduce(tf.zeros([0]), reduction, communicator, name, local_reduction)
    is_flat = isinstance(tensors, list) and len(tensors) == len(flat)
    if is_flat and all(map(operator.is_, tensors, flat)):
        return reduced  # packing takes longer than reducing small tensors does
    return tf.nest.pack_sequence_as(tensors, reduced)


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
        # Before they travel.
        check_slices(rows, reduction)
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


def _check_compressible(sparse: Sequence[int], local_reduction: str) -> None:
    if not sparse and local_reduction == "adasum":
        return
    received = "tf.IndexedSlices" if sparse else f"local_reduction={local_reduction!r}"
    expected = "dense tensors, and one tree over all ranks, where compression is asked for"
    raise ValueError(refusal(expected, received, "Leave one of the two out."))
