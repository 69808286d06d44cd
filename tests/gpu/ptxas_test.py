"""The kernels' machine code, as nvcc reports it: nothing is spilled. Needs no GPU."""

import ctypes
import os
from pathlib import Path

from tools import ptxas_report


def _kernels():
    kernels = ptxas_report.read(Path(os.environ["ADASUM_PTXAS"]).read_text())
    assert kernels
    return kernels


def test_no_register_is_spilled():
    for kernel in _kernels():
        assert (kernel.stack_bytes, kernel.spill_bytes) == (0, 0), kernel


def test_registers_leave_room_for_four_blocks():
    for kernel in _kernels():
        # 65,536 registers for 4 blocks of 256 threads.
        assert 0 < kernel.registers <= 64, kernel


def test_every_kernel_is_there_for_every_architecture():
    by_arch = {}
    for kernel in _kernels():
        by_arch.setdefault(kernel.arch, set()).add(kernel.name)
    names = set().union(*by_arch.values())
    assert all(of_arch == names for of_arch in by_arch.values())
    assert sum("Moments" in name for name in names) == 4
    assert sum("Combine" in name for name in names) == 4


def test_library_loads_without_a_driver():
    library = ctypes.CDLL(os.path.abspath(os.environ["ADASUM_KERNELS_LIBRARY"]))
    library.adasum_error.restype = ctypes.c_char_p
    assert library.adasum_error() == b""
