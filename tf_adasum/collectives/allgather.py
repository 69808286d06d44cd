"""allgather: every rank's rows on every rank."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import as_tensors, check_fixed_size, issuing
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def allgather(
    tensors: Any, communicator: Communicator | None = None, name: str | None = None
) -> Any:
    """Joins the ranks' tensors along their first dimension, in the order of the ranks.

    Args:
        tensors: a tensor or a (nested) structure of tensors of any fixed-size dtype, each of at
            least one dimension. The first dimension may be another one on each rank, also 0; the
            others and the dtype must be equal on all ranks.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.

    Returns:
        The same structure, each tensor with the rows of all ranks. A gradient comes back as the sum
        over all ranks of what they have for this rank's rows.

    Raises:
        tf.errors.InvalidArgumentError: on all ranks, if they pass different dtypes, counts, names
            or shapes behind the first dimension, or scalars, or a dtype of no fixed size.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        tf.errors.ResourceExhaustedError: on all ranks, if one lacks the memory.
        ValueError: for `tf.IndexedSlices` without a dense_shape.
        TypeError: for what is no tensor or communicator, or a name that is no str.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> rows = tf.fill([adasum.rank() + 1, 2], adasum.rank())  # 1 row, 2 rows, 3 rows, ...
        >>> adasum.allgather(rows).numpy().tolist()  # one rank: its own
        [[0, 0]]
    """
    communicator = checked_group(communicator, name)
    flat = as_tensors(tf.nest.flatten(tensors))
    if not flat and communicator.size > 1:
        # As in allreduce; no rows of a shape that other ranks may have some of.
        allgather(tf.zeros([0, 0]), communicator, name)
    gathered = gather_rows(flat, communicator, name, ordered=name is None)
    return tf.nest.pack_sequence_as(tensors, gathered)


def gather_rows(
    tensors: Sequence[tf.Tensor], communicator: Communicator, name: str | None, ordered: bool
) -> list[tf.Tensor]:
    """What `allgather` does to a list of tensors.

    Args:
        tensors: as for `allgather`.
        communicator: whose ranks take part.
        name: as for `allreduce`.
        ordered: inside a tf.function, whether it keeps its place among the other ordered ones.

    Returns:
        The rows of all ranks, of each tensor.

    Raises:
        As `allgather`.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> from tf_adasum.collectives.allgather import gather_rows
        >>> gather_rows([tf.constant([7])], adasum.world(), "sevens", ordered=True)[0].numpy()
        array([7], dtype=int32)
    """
    check_fixed_size(tensors)
    if not tensors:
        return []
    with issuing(communicator, name, ordered) as (handle, attributes):
        gathered, _ = native.ops.adasum_allgather(handle, tensors, **attributes)
    return gathered
