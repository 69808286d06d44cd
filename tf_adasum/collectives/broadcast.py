"""broadcast: one rank's tensors on all ranks."""

from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group, checked_root
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import as_tensors, check_fixed_size, issuing
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def broadcast(
    tensors: Any,
    root: int = 0,
    communicator: Communicator | None = None,
    name: str | None = None,
) -> Any:
    """Replaces tensors by those of one rank.

    Args:
        tensors: a tensor or a structure of tensors of any fixed-size dtype; shapes and dtypes
            must be equal on all ranks.
        root: the rank whose values all get.
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.

    Returns:
        The same structure with the root's values. A gradient comes back as the sum over all ranks
        on the root, and as zero elsewhere.

    Raises:
        tf.errors.InvalidArgumentError: if ranks pass different dtypes, shapes, roots or names, or a
            root that is no rank, or a dtype of no fixed size.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        ValueError: for `tf.IndexedSlices` without a dense_shape.
        TypeError: for what is no tensor or communicator, or a name that is no str.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> int(adasum.broadcast(tf.constant(7)))
        7
    """
    communicator = checked_group(communicator, name)
    root = checked_root(root, communicator)
    flat = as_tensors(tf.nest.flatten(tensors))
    check_fixed_size(flat)
    if not flat and communicator.size > 1:
        broadcast(tf.zeros([0]), root, communicator, name)  # as in allreduce
    if not flat or communicator.size == 1:
        return tf.nest.pack_sequence_as(tensors, [tf.identity(tensor) for tensor in flat])
    is_root = communicator.rank == root
    with issuing(communicator, name, ordered=name is None) as (handle, attributes):
        copies = native.ops.adasum_broadcast(handle, flat, root=root, is_root=is_root, **attributes)
    return tf.nest.pack_sequence_as(tensors, copies)
