"""What every rank holds, on all ranks."""

from __future__ import annotations

import numpy as np

from tf_adasum.collectives.communicator import Communicator


def gather_bytes(own: bytes, communicator: Communicator, name: str) -> list[bytes]:
    """Returns the bytes of every rank, in the order of ranks; collective, in two messages.

    Args:
        own: this rank's bytes, any number of them.
        communicator: whose ranks take part.
        name: equal on all ranks for what belongs together.

    Returns:
        A list of as many `bytes` as there are ranks.

    Raises:
        TimeoutError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        RuntimeError: if a rank has ended.

    Example:
        >>> import tf_adasum as adasum
        >>> from tf_adasum.collectives.gathered import gather_bytes
        >>> gather_bytes(b"abc", adasum.world(), "what each rank says")
        [b'abc']
    """
    sizes = np.zeros(communicator.size, np.int64)
    sizes[communicator.rank] = len(own)
    communicator.allreduce_arrays([sizes], "sum", f"{name}: sizes")
    # In whole words, to which the others add zeros: that leaves every bit as it is.
    ends = np.cumsum(-(-sizes // 4))
    words = np.zeros(ends[-1], np.int32)
    begins = 4 * np.concatenate([[0], ends[:-1]])
    everything = words.view(np.uint8)
    begin = begins[communicator.rank]
    everything[begin : begin + len(own)] = np.frombuffer(own, np.uint8)
    communicator.allreduce_arrays([words], "sum", name)
    return [everything[b : b + size].tobytes() for b, size in zip(begins, sizes)]
