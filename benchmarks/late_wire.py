"""Lets messages of chunks come late in this process (late_wire.cc)."""

from __future__ import annotations

import ctypes

import tf_adasum

_HOW = (
    "bazel build //benchmarks:liblate_wire.so; "
    "adasumrun -np 4 env LD_PRELOAD=$PWD/bazel-bin/benchmarks/liblate_wire.so python -m ..."
)


def set_lateness(share_of_chunks: float, milliseconds: float) -> None:
    """Lets a share of the chunks be late from now on, each by one of its messages.

    Args:
        share_of_chunks: of those that ranks exchange by `adasum.sync.Deadline`.
        milliseconds: by how much.

    Raises:
        RuntimeError: the library was not preloaded.
    """
    try:
        set_late_wire = ctypes.CDLL(None).SetLateWire
    except AttributeError:
        raise RuntimeError(f"Expected liblate_wire.so to be preloaded: {_HOW}") from None
    # A chunk goes to its owner from all others, and from there to them.
    num_messages = max(2 * (tf_adasum.size() - 1), 1)
    share = 1 - (1 - share_of_chunks) ** (1 / num_messages)
    set_late_wire(ctypes.c_double(share), ctypes.c_double(milliseconds))
