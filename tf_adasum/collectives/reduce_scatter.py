"""reduce_scatter: every rank gets a share of what allreduce gives to all."""

from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native, reductions
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import (
    as_tensors,
    check_dtypes,
    indices_by_dtype,
    issuing,
    name_of_dtype,
)
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def reduce_scatter(
    tensors: Any,
    reduction: str = "sum",
    communicator: Communicator | None = None,
    name: str | None = None,
) -> Any:
    """Reduces tensors over all ranks and leaves each rank its share of the rows.

    Rank r gets the r-th run of rows: all ranks as many, or, where the rows can't be dealt evenly,
    the first ranks one more. It sends and receives half of what an allreduce does.

    Args:
        tensors: a tensor or a (nested) structure of tensors, of shapes that are equal on all ranks
            and have at least one dimension. dtypes as for `allreduce`.
        reduction: "sum", "mean", "min", "max" or "product"; not "adasum", which looks at whole
            tensors: take a slice of its allreduce.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.

    Returns:
        The same structure, each tensor with this rank's rows of the reduction: the bits that
        `allreduce` gives them. For "sum" and "mean" a gradient comes back from all ranks.

    Raises:
        tf.errors.InvalidArgumentError: on all ranks, if they pass different dtypes, shapes, counts
            or names, or scalars, or a dtype that the reduction does not take.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        LookupError: if a gradient is asked for through another reduction than "sum" and "mean".
        ValueError: for an unknown reduction, and for "adasum"; for `tf.IndexedSlices` without a
            dense_shape.
        TypeError: for what is no tensor or communicator, or a name that is no str.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> share = adasum.reduce_scatter(tf.range(5))
        >>> share.numpy().tolist()  # one rank: all rows
        [0, 1, 2, 3, 4]
    """
    communicator = checked_group(communicator, name)
    _check(reduction)
    flat = as_tensors(tf.nest.flatten(tensors))
    if not flat and communicator.size > 1:
        reduce_scatter(tf.zeros([0]), reduction, communicator, name)  # as in allreduce
    by_dtype = indices_by_dtype(flat)
    check_dtypes(reduction, by_dtype)
    shares: list[Any] = [None] * len(flat)
    for dtype, indices in by_dtype.items():
        op_name = name_of_dtype(name, dtype, by_dtype)
        with issuing(communicator, op_name, ordered=name is None) as (handle, attributes):
            scattered = native.ops.adasum_reduce_scatter(
                handle,
                [flat[index] for index in indices],
                reduction=reduction,
                num_ranks=communicator.size,
                **attributes,
            )
        for index, share in zip(indices, scattered):
            shares[index] = share
    return tf.nest.pack_sequence_as(tensors, shares)


def _check(reduction: str) -> None:
    reductions.check_name(reduction)
    if reduction == "adasum":
        received = "'adasum', which looks at whole tensors"
        advice = "Use allreduce and take a slice of its result."
        raise ValueError(refusal("a reduction that works element by element", received, advice))
