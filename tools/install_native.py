"""Puts what Bazel built beside the Python sources: install_native.py BAZEL_BIN."""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ("tf_adasum/_native.so", "tf_adasum/_arena.so", "adasumrun/_build_info.py")


def main(bazel_bin: str) -> None:
    """Copies the files that differ; a process that has the old library loaded keeps it."""
    for name in BUILT:
        source, target = Path(bazel_bin, name), ROOT / name
        if target.exists() and filecmp.cmp(source, target, shallow=False):
            continue
        arriving = target.with_name(f".{target.name}.arriving")
        shutil.copyfile(source, arriving)
        os.replace(arriving, target)
        print(f"Installed {target}")


if __name__ == "__main__":
    main(sys.argv[1])
