"""Finds a Python interpreter and asks it about itself and its packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from third_party.probe import ConfigureError, find_program, run

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = ((3, 10), (3, 13))

# Runs inside the chosen interpreter. It does not import the packages: TensorFlow takes seconds.
_PROBE = """
import importlib.metadata, importlib.util, json, sys, sysconfig

def folder(name):
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations)[0] if spec else None

print(json.dumps({
    "version": list(sys.version_info[:3]),
    "prefix": sys.prefix,
    "include": sysconfig.get_path("include"),
    "tag": f"cp{sys.version_info[0]}{sys.version_info[1]}",
    "packages": {
        (package.metadata["Name"] or "").replace("_", "-"): package.version
        for package in importlib.metadata.distributions()
    },
    "tensorflow": folder("tensorflow"),
    "pybind11": folder("pybind11"),
}))
"""


def find_python(wanted: str | None) -> dict:
    """Returns what the chosen interpreter says of itself and its packages.

    Args:
      wanted: path or name of an interpreter. None chooses the active virtual
        environment, else .venv of this checkout, else the interpreter that runs this file.

    Returns:
      The probe's answer, with "path" and the "settings" for .bazelrc.user added.

    Raises:
      ConfigureError: if it cannot be run, its version is not supported or it has no headers.
    """
    path = _choose_python(wanted)
    try:
        answer = run([path, "-c", _PROBE])
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigureError(
            f"expected a Python interpreter. Received: {path} ({error}). "
            "Name one with --python=/path/to/python3."
        ) from error
    python = json.loads(answer)
    python["path"] = path
    low, high = SUPPORTED
    if not low <= tuple(python["version"][:2]) <= high:
        raise ConfigureError(
            f"expected Python {dotted(low)} to {dotted(high)}. "
            f"Received: {dotted(python['version'])} ({path}). "
            "Name another one with --python=/path/to/python3."
        )
    python["include"] = _python_include(python)
    python["settings"] = {
        "ADASUM_PYTHON": path,
        "ADASUM_PYTHON_INCLUDE": python["include"],
        "ADASUM_PYTHON_TAG": python["tag"],
    }
    return python


def dotted(version: tuple[int, ...] | list[int]) -> str:
    """Returns 3.11.7 for (3, 11, 7)."""
    return ".".join(str(number) for number in version)


def _choose_python(wanted: str | None) -> str:
    if wanted:
        return find_program(wanted)
    own = ROOT / ".venv" / "bin" / "python"
    if sys.prefix == sys.base_prefix and own.exists():
        return str(own)
    return sys.executable


def _python_include(python: dict) -> str:
    include = python["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise ConfigureError(
            f"expected Python.h of {python['path']}. Received: none in {include}. "
            "Install Python's development package "
            f"(Debian: python{dotted(python['version'][:2])}-dev)."
        )
    return include
