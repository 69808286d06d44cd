"""Which devices of this process a strategy may have replicas on."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal, shown


def checked_devices(devices: Any) -> list[str]:
    """Returns the names as a list.

    Args:
        devices: what the user passed: a list of names such as "CPU:0" or "/device:GPU:1".

    Raises:
        ValueError: it is no such list, or a device is not there, or there twice.

    Example:
        >>> from tf_adasum.distribute.devices import checked_devices
        >>> checked_devices(("CPU:0",))
        ['CPU:0']
    """
    there = [device.name for device in tf.config.list_logical_devices()]
    names = [] if isinstance(devices, str) or not hasattr(devices, "__iter__") else list(devices)
    found = [_in_full(name) for name in names]
    if names and len(set(found)) == len(found) and all(name in there for name in found):
        return names
    expected = f"a list of devices, each of them once, among {', '.join(there)}"
    advice = "Pass None for this process's own, or make more by set_logical_device_configuration."
    raise ValueError(refusal(expected, shown(devices), advice))


def own_devices(communicator: Communicator) -> list[str]:
    """Returns all GPUs; one of them where the host has several ranks; the CPU without any."""
    gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
    if not gpus:
        return ["CPU:0"]
    if communicator.local_size > 1:
        return [gpus[communicator.local_rank % len(gpus)]]
    return gpus


def _in_full(name: Any) -> str:
    """As TensorFlow lists it; empty for what names no device."""
    try:
        device = tf.DeviceSpec.from_string(name)
    except (TypeError, ValueError, AttributeError):
        return ""
    return f"/device:{device.device_type}:{device.device_index or 0}"
