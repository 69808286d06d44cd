"""Prints what ptxas says of each kernel as a table: ptxas_report.py REPORT...

The build keeps the reports: bazel-bin/cc/cuda/kernels/arithmetic_cuda.ptxas.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

_TIME_LIMIT_SECONDS = 60
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '(?P<arch>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


class Kernel(NamedTuple):
    """One kernel as compiled for one architecture."""

    name: str
    arch: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def read(report: str) -> list[Kernel]:
    """Returns the kernels of what `nvcc -Xptxas -v` printed, their names as in the source."""
    found = list(_ENTRY.finditer(report))
    names = _demangled([entry["name"] for entry in found])
    kernels = []
    for entry, name in zip(found, names):
        shared = re.search(r"(\d+) bytes smem", entry["rest"])
        kernels.append(
            Kernel(
                name,
                entry["arch"],
                int(entry["registers"]),
                int(shared.group(1)) if shared else 0,
                int(entry["stack"]),
                int(entry["stores"]) + int(entry["loads"]),
            )
        )
    return kernels


def main(paths: Sequence[str]) -> None:
    """Prints one line for each kernel and architecture, as a Markdown table."""
    kernels = sorted(kernel for path in paths for kernel in read(Path(path).read_text()))
    headers = ("kernel", "architecture", "registers", "shared bytes", "stack", "spilled")
    print(tabulate([(f"`{kernel.name}`", *kernel[1:]) for kernel in kernels], headers, "github"))


def _demangled(names: Sequence[str]) -> list[str]:
    """Returns `MomentsKernel<float>` for the linker's name of it."""
    text = subprocess.run(
        ["c++filt"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIME_LIMIT_SECONDS,
    ).stdout
    shortened = re.sub(r"adasum::(cuda::)?|^void |\(.*\)$", "", text, flags=re.MULTILINE)
    return shortened.splitlines()


if __name__ == "__main__":
    main(sys.argv[1:])
