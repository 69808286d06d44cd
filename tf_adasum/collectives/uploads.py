"""The sum over those ranks that have something to say."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import indices_by_dtype, issuing, name_of_dtype


def sum_of_uploads(
    tensors: Sequence[tf.Tensor],
    uploads: tf.Tensor | bool,
    communicator: Communicator,
    name: str,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Sums tensors over the ranks that upload theirs, at all ranks.

    U of P ranks upload n bytes each: ranks tell each other in a few bytes which; those U send
    2 (U - 1) n in an allreduce, and (P - U) n to the others. Where none does nothing more travels.

    Args:
        tensors: floats; dtypes and shapes are equal on all ranks.
        uploads: bool []; whether this rank's count, each rank as it likes.
        communicator: whose ranks take part.
        name: equal on all ranks.

    Returns:
        The sums, the same bits on all ranks, zero where no rank uploads; and over how many ranks,
        int64 [].

    Raises:
        As `allreduce`.
    """
    by_dtype = indices_by_dtype(tensors)
    sums: list = [None] * len(tensors)
    num_uploads = None
    for dtype, indices in by_dtype.items():
        op_name = name_of_dtype(name, dtype, by_dtype)
        with issuing(communicator, op_name, ordered=True) as (handle, attributes):
            summed, num_uploads = native.ops.adasum_uploads(
                handle, uploads, [tensors[index] for index in indices], **attributes
            )
        for index, each in zip(indices, summed):
            sums[index] = each
    return sums, num_uploads
