"""Finds a CUDA toolkit by its compiler, nvcc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from third_party.probe import TIME_LIMIT_SECONDS, ConfigureError, run

OLDEST = (12, 3)
DEFAULT_ARCHS = "80,90"
_PARTS = ("include/cuda_runtime.h", "lib64/libcudart_static.a")


def find_cuda(wanted: str | None, archs: str | None) -> tuple[dict[str, str], str]:
    """Returns the settings of one CUDA toolkit, and a line about it for people.

    Args:
      wanted: the toolkit's folder; "no" for none; None takes the one that this machine has, at
        $CUDA_HOME, in /usr/local/cuda or by the nvcc on PATH, if one is there and usable.
      archs: compute capabilities without the dot, separated by commas; None for "80,90".

    Returns:
      The settings, all empty where the build does without CUDA; the line.

    Raises:
      ConfigureError: if the toolkit asked for is not there, too old or not complete, or for
        unusable archs.
    """
    archs = _checked(archs or DEFAULT_ARCHS)
    driver = "driver found" if os.path.exists("/proc/driver/nvidia/version") else "no driver"
    missing = "built without"
    try:
        nvcc = None if wanted == "no" else _choose_nvcc(wanted)
        if nvcc is not None:
            version, home = _version(nvcc), _complete_home(nvcc)
            settings = _settings(home, version, archs)
            return settings, f"{version} ({home}), compute capabilities {archs}, {driver}"
    except ConfigureError as error:
        # A toolkit that nobody asked for must not stand in the way of a build without one.
        if wanted:
            raise
        missing = f"built without: {error}"
    return _settings("", "", ""), f"{missing}, {driver}"


def _settings(home: str, version: str, archs: str) -> dict[str, str]:
    return {
        "ADASUM_CUDA_HOME": home,
        "ADASUM_CUDA_VERSION": version,
        "ADASUM_CUDA_ARCHS": archs,
    }


def _choose_nvcc(wanted: str | None) -> str | None:
    if wanted:
        nvcc = os.path.join(os.path.expanduser(wanted), "bin", "nvcc")
        if not os.access(nvcc, os.X_OK):
            raise ConfigureError(
                f"expected a CUDA toolkit in {wanted}. Received: no {nvcc}. "
                "Name another one with --cuda=/path/to/cuda or build without: --cuda=no."
            )
        return nvcc
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    compilers = [os.path.join(home, "bin", "nvcc") for home in homes if home]
    return next((path for path in compilers if os.access(path, os.X_OK)), shutil.which("nvcc"))


def _version(nvcc: str) -> str:
    try:
        found = re.search(r"release (\d+)\.(\d+)", run([nvcc, "--version"]))
    except (OSError, subprocess.SubprocessError) as error:
        raise _broken(nvcc, error) from error
    version = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
    if version < OLDEST:
        raise ConfigureError(
            f"expected CUDA {OLDEST[0]}.{OLDEST[1]} or newer. "
            f"Received: {version[0]}.{version[1]} ({nvcc}). "
            "Name another toolkit with --cuda=/path/to/cuda or build without: --cuda=no."
        )
    return f"{version[0]}.{version[1]}"


def _broken(nvcc: str, error: Exception) -> ConfigureError:
    return ConfigureError(
        f"expected an nvcc that runs. Received: {nvcc} ({error}). "
        "Name another toolkit with --cuda=/path/to/cuda or build without: --cuda=no."
    )


def _complete_home(nvcc: str) -> str:
    """Returns the toolkit's folder as nvcc itself names it: nvcc may be a script or a link."""
    try:
        said = subprocess.run(
            [nvcc, "--dryrun", "-c", "x.cu"],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _broken(nvcc, error) from error
    found = re.search(r"^#\$ TOP=(.+)$", said.stderr, re.MULTILINE)
    home = Path(found.group(1) if found else Path(nvcc).parent.parent).resolve()
    for part in _PARTS:
        if not (home / part).exists():
            raise ConfigureError(
                f"expected {part} in the CUDA toolkit {home}. Received: no such file. "
                "Install the whole toolkit or build without: --cuda=no."
            )
    return str(home)


def _checked(archs: str) -> str:
    names = [name.strip() for name in archs.split(",")]
    # Bfloat16 arithmetic and the driver's PTX for it begin with 8.0.
    if not all(re.fullmatch(r"\d{2,3}", name) and int(name) >= 80 for name in names):
        raise ConfigureError(
            "expected compute capabilities of at least 80, such as 80,90. "
            f"Received: {archs}. Correct --cuda-archs."
        )
    return ",".join(sorted(set(names), key=int))
