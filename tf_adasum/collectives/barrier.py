"""barrier: nobody goes on before all have come."""

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.operations import issuing
from tf_adasum.collectives.unconverted import unconverted


@unconverted
def barrier(communicator: Communicator | None = None, name: str | None = None) -> None:
    """Waits until all ranks have come to it.

    Eagerly, all that a rank did before is done. Inside a `tf.function` it keeps its place among the
    collectives of its communicator, and among nothing else: put what must wait for it under
    `tf.control_dependencies`, or call it between two functions.

    Args:
        communicator: whose ranks take part; all ranks if None.
        name: as for `allreduce`.

    Raises:
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        TypeError: for what is no communicator, or a name that is no str.

    Example:
        >>> import tf_adasum as adasum
        >>> if adasum.rank() == 0:
        ...     pass  # unpack a data set that all ranks of this host read afterwards
        >>> adasum.barrier()
    """
    communicator = checked_group(communicator, name)
    with issuing(communicator, name, ordered=name is None) as (handle, attributes):
        native.ops.adasum_barrier(handle, **attributes)
