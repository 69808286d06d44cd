"""alltoall: every rank deals its rows to the ranks."""

from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import as_tensors, check_fixed_size, issuing
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def alltoall(
    tensors: Any,
    splits: Any = None,
    communicator: Communicator | None = None,
    name: str | None = None,
) -> tuple[Any, tf.Tensor]:
    """Sends some rows of each tensor to each rank, and joins what comes from the ranks.

    Args:
        tensors: a tensor or a (nested) structure of tensors of any fixed-size dtype, each of at
            least one dimension. All tensors of a rank have the same first dimension, which may be
            another one on each rank; the others and the dtype must be equal on all ranks.
        splits: how many rows each rank gets, whole numbers that add up to the first dimension: rank
            0 gets the first ones. If None all ranks get as many.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.

    Returns:
        The same structure with the rows that came, in the order of the ranks; and an int64 vector
        of how many came from each rank. A gradient goes back to the ranks whose rows they are.

    Raises:
        tf.errors.InvalidArgumentError: on all ranks, if they pass different dtypes, counts, names
            or shapes behind the first dimension, or one passes scalars, or splits that don't deal
            its rows, or a dtype of no fixed size.
        ValueError: if there is no tensor, or splits are no vector of whole numbers; for
            `tf.IndexedSlices` without a dense_shape.
        TypeError: for what is no tensor or communicator, or a name that is no str.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        tf.errors.ResourceExhaustedError: on all ranks, if one lacks the memory.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> rows = tf.range(adasum.size()) + 10 * adasum.rank()
        >>> received, counts = adasum.alltoall(rows)  # one for each rank
        >>> received.numpy().tolist(), counts.numpy().tolist()  # one rank: its own
        ([0], [1])
    """
    communicator = checked_group(communicator, name)
    flat = as_tensors(tf.nest.flatten(tensors))
    check_fixed_size(flat)
    if not flat:
        expected = "at least one tensor, whose rows are dealt"
        raise ValueError(refusal(expected, "none", "Pass a tensor on every rank."))
    counts = _counts(splits)
    with issuing(communicator, name, ordered=name is None) as (handle, attributes):
        dealt, received = native.ops.adasum_alltoall(handle, counts, flat, **attributes)
    return tf.nest.pack_sequence_as(tensors, dealt), received


def _counts(splits: Any) -> tf.Tensor:
    """Returns what the op takes: an empty vector for as many rows for each rank."""
    if splits is None:
        return tf.zeros([0], tf.int64)
    try:
        counts = tf.convert_to_tensor(splits)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        counts = None
    is_vector = counts is not None and counts.shape.rank in (1, None) and counts.shape != [0]
    if not is_vector or not counts.dtype.is_integer:
        expected = "one whole number for each rank as splits"
        raise ValueError(refusal(expected, shown(splits), "Pass such a list, or None."))
    return tf.cast(counts, tf.int64)
