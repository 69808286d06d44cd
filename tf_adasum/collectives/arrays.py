"""Collectives on NumPy arrays, without TensorFlow on the way."""

from collections.abc import Sequence

import numpy as np

from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.reductions import check_name
from tf_adasum.collectives.refusals import refusal, shown


def allreduce_arrays(
    arrays: np.ndarray | Sequence[np.ndarray],
    reduction: str = "adasum",
    communicator: Communicator | None = None,
    name: str | None = None,
) -> None:
    """Reduces NumPy arrays over all ranks, in place, each array by itself.

    What `allreduce` does to tensors, carried out on the calling thread, which waits for it: for
    small arrays microseconds in place of a tenth of a millisecond. From 1 MiB on as many threads
    work as the rank has cores (TF_ADASUM_CORES).

    Args:
        arrays: an array or a list of arrays of one dtype, any shapes; writeable, C-contiguous,
            aligned, of this machine's byte order, and none sharing memory with another. dtypes as
            for `allreduce`.
        reduction: as for `allreduce`.
        communicator: whose ranks take part; all ranks if None.
        name: equal on all ranks for what belongs together. Threads that reduce at the same time
            need names of their own.

    Raises:
        ValueError: if an array cannot be reduced in place, or the ranks' arrays differ in shape,
            dtype or count; no array is changed then.
        TypeError: for what is no array and no list.
        TimeoutError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        RuntimeError: if a rank has ended, lacks memory, or broke the communicator before.
        tf.errors.UnavailableError: if the communicator was closed.

    Example:
        >>> import numpy as np, tf_adasum as adasum
        >>> gradient = np.array([1.0, 2.0])
        >>> adasum.allreduce_arrays(gradient)
        >>> gradient.tolist()  # one rank: Adasum of one is itself
        [1.0, 2.0]

    Source: Maleki et al., MLSys 2021, section 3.
    """
    communicator = checked_group(communicator, name)
    check_name(reduction)
    if isinstance(arrays, np.ndarray):
        arrays = (arrays,)
    else:
        try:
            arrays = tuple(arrays)
        except Exception as error:  # a tensor's, say
            line = refusal("an array or a list of arrays", shown(arrays), "Pass NumPy arrays.")
            raise TypeError(line) from error
    names = () if name is None else (name,)
    communicator.allreduce_arrays(arrays, reduction, *names)
