"""Arrays on a CUDA device by whichever of PyTorch and CuPy is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

_MISSING = "Run this on a machine with an NVIDIA GPU (tests/gpu/run.sh)."


def open_device():
    """Returns the device; raises RuntimeError where there is none, or no library to reach it."""
    if importlib.util.find_spec("torch"):
        device = _Torch()
    elif importlib.util.find_spec("cupy"):
        device = _CuPy()
    else:
        raise RuntimeError(f"expected PyTorch or CuPy. Received: neither. {_MISSING}")
    if not device.is_there():
        raise RuntimeError(f"expected a CUDA device. Received: none. {_MISSING}")
    return device


class _Torch:
    """Buffers are tensors of bytes."""

    def __init__(self):
        import torch

        self._torch = torch

    def is_there(self) -> bool:
        return self._torch.cuda.is_available()

    def name(self) -> str:
        return self._torch.cuda.get_device_name()

    def to_device(self, array: np.ndarray):
        """Returns a copy of an array's bytes."""
        flat = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).copy()
        return self._torch.from_numpy(flat).cuda()

    def empty(self, num_bytes: int):
        return self._torch.empty(num_bytes, dtype=self._torch.uint8, device="cuda")

    def to_host(self, buffer) -> np.ndarray:
        return buffer.cpu().numpy()

    def address(self, buffer) -> int:
        return buffer.data_ptr()

    def copy(self, to, source) -> None:
        to.copy_(source)

    def stream(self) -> int:
        return self._torch.cuda.current_stream().cuda_stream

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def milliseconds(self, call: Callable[[], None], repeat: int) -> list[float]:
        """Times `repeat` calls one by one with events."""
        event = self._torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(repeat)]
        for begin, end in pairs:
            begin.record()
            call()
            end.record()
        self.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]

    def capture(self, call: Callable[[], None]) -> Callable[[], None]:
        """Captures what `call` launches into a graph and returns its replay."""
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            call()
        return graph.replay


class _CuPy:
    """Buffers are arrays of bytes."""

    def __init__(self):
        import cupy

        self._cupy = cupy

    def is_there(self) -> bool:
        try:
            return self._cupy.cuda.runtime.getDeviceCount() > 0
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return False

    def name(self) -> str:
        return self._cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def to_device(self, array: np.ndarray):
        """Returns a copy of an array's bytes."""
        return self._cupy.asarray(np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8))

    def empty(self, num_bytes: int):
        return self._cupy.empty(num_bytes, self._cupy.uint8)

    def to_host(self, buffer) -> np.ndarray:
        return buffer.get()

    def address(self, buffer) -> int:
        return buffer.data.ptr

    def copy(self, to, source) -> None:
        to.data.copy_from_device_async(source.data, to.nbytes)

    def stream(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    def synchronize(self) -> None:
        self._cupy.cuda.runtime.deviceSynchronize()

    def milliseconds(self, call: Callable[[], None], repeat: int) -> list[float]:
        """Times `repeat` calls one by one with events."""
        event = self._cupy.cuda.Event
        pairs = [(event(), event()) for _ in range(repeat)]
        for begin, end in pairs:
            begin.record()
            call()
            end.record()
        self.synchronize()
        return [self._cupy.cuda.get_elapsed_time(begin, end) for begin, end in pairs]

    def capture(self, call: Callable[[], None]) -> Callable[[], None]:
        """Captures what `call` launches into a graph and returns its replay."""
        stream = self._cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            call()
            graph = stream.end_capture()
        return lambda: graph.launch(self._cupy.cuda.get_current_stream())
