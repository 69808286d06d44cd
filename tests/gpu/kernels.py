"""The kernels' C interface (capi.cc) on buffers of device_arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Where run.sh puts the library.
LIBRARY = Path(__file__).resolve().parent / "build" / "libadasum_kernels.so"


class _Piece(ctypes.Structure):
    _fields_ = (
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("num_elements", ctypes.c_int64),
        ("first_chunk", ctypes.c_int64),
        ("num_chunks", ctypes.c_int64),
    )


class _Work(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("num_pieces", ctypes.c_int64),
        ("num_chunks", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        ("moments", ctypes.c_void_p),
        ("partials", ctypes.c_void_p),
        ("arrivals", ctypes.c_void_p),
    )


class Operands(NamedTuple):
    """Addresses of one piece in device memory; 0 for an operand that is not read or written."""

    left: int
    right: int
    out: int
    num_elements: int
    copy: int = 0  # a second place for the result


class WorkList:
    """A list of pieces in device memory, and what launches on it need beside it."""

    def __init__(self, kernels: Kernels, dtype: str, pieces: Sequence[Operands], bytes_each: int):
        library, device = kernels.library, kernels.device
        addresses = (_Piece * len(pieces))(
            *[_Piece(p.left, p.right, p.out, p.copy, p.num_elements, 0, 0) for p in pieces]
        )
        self.num_pieces = len(pieces)
        self.num_chunks = library.adasum_count_chunks(len(pieces), addresses, bytes_each)
        host = np.empty(library.adasum_work_bytes(len(pieces), self.num_chunks), np.uint8)
        library.adasum_write_work(len(pieces), addresses, bytes_each, host.ctypes.data)
        self._kernels = kernels
        self._dtype = dtype.encode()
        self._list = device.to_device(host)
        self._partials = device.empty(24 * self.num_chunks)
        self._arrivals = device.to_device(np.zeros(len(pieces), np.uint32))
        self.moments = device.to_device(np.full((len(pieces), 3), np.nan))

    def launch(self, name: str, *arguments: Any) -> None:
        """Launches adasum_<name> on the current stream."""
        device = self._kernels.device
        work = _Work(
            self._dtype,
            device.address(self._list),
            self.num_pieces,
            self.num_chunks,
            device.stream(),
        )
        self._kernels.call(name, ctypes.byref(work), *arguments)

    def launch_moments(self) -> None:
        """Launches the moments; `self.moments` receives (dot, |left|^2, |right|^2) of each."""
        parts = (self.moments, self._partials, self._arrivals)
        memory = _Memory(*[self._kernels.device.address(part) for part in parts])
        self.launch("moments", ctypes.byref(memory))

    def moments_on_host(self) -> np.ndarray:
        """Returns the moments, float64 of shape (pieces, 3)."""
        return self._kernels.device.to_host(self.moments).view(np.float64).reshape(-1, 3)

    def arrivals_on_host(self) -> np.ndarray:
        """Returns the counters that every launch must leave at zero."""
        return self._kernels.device.to_host(self._arrivals).view(np.uint32)


class Kernels:
    """The library and the device that its launches go to."""

    def __init__(self, device: Any):
        path = os.environ.get("ADASUM_KERNELS_LIBRARY", LIBRARY)
        self.device = device
        self.library = ctypes.CDLL(os.path.abspath(path))
        self.library.adasum_error.restype = ctypes.c_char_p
        self.library.adasum_count_chunks.restype = ctypes.c_int64
        self.library.adasum_work_bytes.restype = ctypes.c_int64
        integers = [ctypes.c_int64]
        self.library.adasum_count_chunks.argtypes = [*integers, ctypes.c_void_p, *integers]
        self.library.adasum_work_bytes.argtypes = integers * 2
        self.library.adasum_write_work.argtypes = [
            *integers,
            ctypes.c_void_p,
            *integers,
            ctypes.c_void_p,
        ]

    def work(self, dtype: str, pieces: Sequence[Operands], bytes_each: int) -> WorkList:
        """Returns a list cut for elements of `bytes_each` bytes."""
        return WorkList(self, dtype, pieces, bytes_each)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls adasum_<name>; raises RuntimeError with the library's words."""
        if getattr(self.library, f"adasum_{name}")(*arguments) != 0:
            raise RuntimeError(self.library.adasum_error().decode())
