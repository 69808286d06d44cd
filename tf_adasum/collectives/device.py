"""On which device tensors are exchanged: on their GPU, or, as is the default, on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.refusals import refusal

# Opt-in: nothing has run between two GPUs yet (docs/gpu.md).
_VARIABLE = "TF_ADASUM_GPU"


def exchange_device(
    replicas: Sequence[Sequence[tf.Tensor]], local_reduction: str = "adasum"
) -> str | None:
    """Returns the GPU that tensors are reduced on, or None for the CPU.

    Args:
        replicas: the tensors of every local replica.
        local_reduction: as for `allreduce`; another one than "adasum" is made on the CPU.

    Returns:
        The name of the GPU where all of them lie, if TF_ADASUM_GPU is 1. In a graph a tensor
        lies where it was asked to be, as under a strategy's scope.

    Raises:
        ValueError: if TF_ADASUM_GPU is 1 and the library was built without CUDA, or neither 0
            nor 1.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.device import exchange_device
        >>> exchange_device([[tf.constant([1.0])]]) is None  # not asked for
        True
    """
    value = os.environ.get(_VARIABLE) or "0"
    if value not in ("0", "1"):
        raise ValueError(refusal(f"{_VARIABLE} to be 0 or 1", value, "Set it so, or unset it."))
    if value == "0":
        return None
    if not native.HAS_CUDA:
        advice = "Run ./configure.py --cuda=/path/to/cuda and make build, or unset it."
        raise ValueError(
            refusal(f"a library built with CUDA for {_VARIABLE}=1", "one without", advice)
        )
    if local_reduction != "adasum":
        return None
    devices = {tensor.device for leaf in replicas for tensor in leaf}
    if len(devices) != 1:
        return None
    (device,) = devices
    is_gpu = "gpu:" in device.lower()
    return device if is_gpu else None
