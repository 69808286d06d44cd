"""What Linux' control groups (version 1 and 2) let this process have: the limits of containers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def cpu_limit(root: Path = Path("/")) -> float:
    """Returns how many cores' time the control groups pay for; infinity if they don't say.

    Args:
      root: comes before all paths; "/" but in tests.
    """
    return min(map(_limit_of_folder, _folders(root, "cpu")), default=math.inf)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the group of a controller and of those around it."""
    try:
        # The name of a group is that of a folder: any bytes.
        lines = os.fsdecode((root / "proc/self/cgroup").read_bytes()).split("\n")
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in filter(None, lines):
        # number:controllers:group
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        own = top / group.lstrip("/")
        yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _limit_of_folder(folder: Path) -> float:
    """Version 2 says "quota period" or "max period", version 1 has a file for each, -1 for none."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = map(float, (folder / "cpu.max").read_text().split())
        else:
            quota = float((folder / "cpu.cfs_quota_us").read_text())
            period = float((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf
