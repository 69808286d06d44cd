"""adasumrun: starts the ranks of a training program with the MPI that tf_adasum was built against.

    adasumrun -np 4 python train.py --epochs=3
    adasumrun advise -np 2 train.py

It is a front over mpirun that sets what is easily forgotten: ranks are not pinned to single cores,
share cores when there are more ranks than cores, may run as root when root starts them, divide the
cores among their threads, and all end when one fails, on Ctrl-C or after --timeout seconds.

It imports nothing outside the standard library, so that it starts at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile

from adasumrun import (
    advise,
    answering_hosts,
    argument_types,
    inputs,
    mpirun,
    process_tree,
    requests,
    restart,
    timeline,
)
from adasumrun.watch import Ended, Watch


def main(argv: list[str] | None = None) -> int:
    """Starts the ranks and waits for them.

    Args:
      argv: command line without the program's name; None for that of this process.

    Returns:
      The exit code of the first rank that failed (128 + signal if a signal ended it) in the last
      start, 0 if none did, 124 after --timeout, 130 after Ctrl-C, 143 after SIGTERM, 1 if nothing
      was started.
    """
    _open_closed_streams()
    options = _parse(argv)
    try:
        inputs.check(options)
        path = mpirun.find()
    except mpirun.LaunchError as error:
        print(f"adasumrun: {error}", file=sys.stderr)
        return 1
    with requests.Requests() as asked:
        watch = Watch(asked, options.timeout, options.grace)
        try:
            code = restart.run(options, lambda *where: _start(path, options, watch, *where), asked)
        except mpirun.LaunchError as error:
            print(f"adasumrun: {error}", file=sys.stderr)
            return 1
    if code == mpirun.NO_DAEMON_CODE and options.hosts:
        _name_silent_hosts(options)
    if options.timeline:
        _join_timelines(options.timeline)
    return code


def _start(
    path: str,
    options: argparse.Namespace,
    watch: Watch,
    places: restart.Places,
    num_restarts: int,
) -> Ended:
    """Starts the ranks once, and waits for their end."""
    shares = getattr(options.hosts, "shares", {})
    options = argparse.Namespace(**{**vars(options), **places._asdict()})
    ranks_here = mpirun.number_here(options)
    environment = mpirun.rank_environment(os.environ, ranks_here)
    environment[requests.RESTARTS_VARIABLE] = str(num_restarts)
    if options.stall_warning is not None:
        environment[mpirun.STALL_WARNING_VARIABLE] = str(options.stall_warning)
    if shares:
        environment[mpirun.SHARES_VARIABLE] = mpirun.rank_shares(options, shares)
    if mpirun.build_info().MPI_LIBRARY:
        # Also for programs that import mpi4py before tf_adasum.
        environment.setdefault("MPI4PY_LIBMPI", mpirun.build_info().MPI_LIBRARY)
    if options.timeline:
        environment[timeline.VARIABLE] = os.path.abspath(options.timeline)
        _discard_timelines(environment[timeline.VARIABLE])
    if options.verbose:
        environment.setdefault(mpirun.VERBOSE_VARIABLE, "1")
    command = mpirun.command_line(path, options, environment)
    if options.verbose:
        print(f"adasumrun: {shlex.join(command)}", file=sys.stderr)
    gets_input = options.stdin != "none" and not mpirun.opens_input(path, options)
    with tempfile.TemporaryDirectory(prefix="adasumrun_", ignore_cleanup_errors=True) as folder:
        if ranks_here is not None:
            environment.setdefault(mpirun.FOLDER_VARIABLE, folder)
        ended, has_lost_host = process_tree.run(
            command,
            environment,
            lambda *started: watch.wait(*started, elsewhere=ranks_here is None),
            stdin=sys.stdin.fileno() if gets_input else subprocess.DEVNULL,
            drops_noise=environment["TF_CPP_MIN_LOG_LEVEL"] != "0",
            end_signal=mpirun.end_signal(path),
        )
    # Open MPI's mpirun takes that for a success.
    return Ended(1, is_final=False) if has_lost_host and ended.code == 0 else ended


def _name_silent_hosts(options: argparse.Namespace) -> None:
    """Says in a line what mpirun says in twenty."""
    answers = answering_hosts.ask(options.hosts, options.mpi_args)
    silent = [entry.partition(":")[0] for entry in answers.silent]
    if silent:
        asked = shlex.join([*answers.command, silent[0], "true"])
        print(
            f"adasumrun: expected hosts that can be reached. Received: no answer from "
            f"{', '.join(silent)} to `{asked}`. Make that work, without a password",
            file=sys.stderr,
        )


def _discard_timelines(path: str) -> None:
    """Removes what a start before, or a launcher that was killed, left on this host."""
    try:
        timeline.discard(path)
    except OSError as error:
        raise mpirun.LaunchError(
            f"expected to remove the ranks' old files of --timeline. Received: {error}. Remove "
            "them, or name another file"
        ) from error


def _join_timelines(path: str) -> None:
    """Joins what the ranks of this host left; those of other hosts keep their files there."""
    try:
        merged = timeline.merge(os.path.abspath(path))
    except OSError as error:
        print(
            f"adasumrun: expected to write the timeline {path}. Received: {error}. The ranks' "
            f"files are left, {path}.rank*",
            file=sys.stderr,
        )
        return
    if merged.num_files:
        print(f"adasumrun: timeline {path} (open it at https://ui.perfetto.dev)", file=sys.stderr)
        if merged.encoded_bytes:
            print(
                f"adasumrun: {merged.num_bytes / 1e6:.3g} MB were encoded in "
                f"{merged.encoded_bytes / 1e6:.3g} MB, all ranks together",
                file=sys.stderr,
            )
    else:
        print(f"adasumrun: no rank left a timeline at {path}", file=sys.stderr)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    argv = sys.argv[1:] if argv is None else list(argv)
    advises = argv[:1] == [advise.COMMAND]
    parser = argparse.ArgumentParser(
        prog="adasumrun advise" if advises else "adasumrun",
        description="Measures the first fit of a training script and predicts it for more ranks."
        if advises
        else "Starts the ranks of a training program with the MPI tf_adasum was built with.",
        epilog="Example: adasumrun -np 4 python train.py --epochs=3. `adasumrun advise -np 2 "
        "train.py` measures a step of it and predicts more ranks: adasumrun advise --help",
    )
    if advises:
        advise.add_options(parser)
    parser.add_argument(
        "-np",
        "-n",
        type=argument_types.positive,
        metavar="N",
        help="number of ranks (default: mpirun's, one a core)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-H",
        "--hosts",
        type=argument_types.host_list,
        metavar="HOST[:RANKS],...",
        help="hosts to run on",
    )
    where.add_argument(
        "--hostfile",
        type=argument_types.hosts_of_file,
        dest="hosts",
        metavar="FILE",
        help="the same, one host a line: HOST, HOST:RANKS or HOST slots=RANKS; share=NUMBER behind "
        "it is for AdasumStrategy(batch_share='hostfile')",
    )
    parser.add_argument(
        "--stdin",
        choices=mpirun.HYDRA_INPUTS,
        default="none",
        help="the rank that reads what is piped into adasumrun: 0, or none, which is the default. "
        "All others find their input empty",
    )
    parser.add_argument(
        "--timeline", metavar="FILE", help="write what each rank did when, as a Chrome trace"
    )
    _add_endings(parser)
    parser.add_argument(
        "--mpi-args",
        type=argument_types.shell_words,
        default="",
        metavar="ARGS",
        help="further arguments of mpirun",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="print the mpirun command, and what the ranks found to suit their hosts",
    )
    parser.add_argument("program", help="what every rank runs; a .py file runs with this Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv[1:] if advises else argv)
    _check_restarts(parser, options)
    options.program = [options.program, *options.arguments]
    if advises:
        options.program = advise.program(parser, options)
    return options


def _add_endings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=argument_types.positive,
        metavar="SECONDS",
        help="end all ranks then, exit code 124; restarts count in",
    )
    parser.add_argument(
        "--stall-warning",
        type=argument_types.count,
        metavar="SECONDS",
        help="say which ranks are missing, and where they are, when an operation has waited for so "
        "long; 0 says nothing (default: 10)",
    )
    parser.add_argument(
        "--max-restarts",
        type=argument_types.count,
        default=0,
        metavar="N",
        help="start all ranks again, up to N times, when one failed (default: 0). " + restart.RULES,
    )
    parser.add_argument(
        "--min-ranks",
        type=argument_types.positive,
        metavar="K",
        help="go on with fewer ranks, but no less than K, where hosts of -H do not answer before "
        "a restart (default: all ranks)",
    )
    parser.add_argument(
        "--grace",
        type=argument_types.positive,
        default=30,
        metavar="SECONDS",
        help="how long ranks may take after SIGTERM to back up and end, where their program has "
        "adasum.callbacks.BackupAndRestore; others end at once. SIGUSR1 lets them back up and go "
        "on (default: 30)",
    )


def _check_restarts(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.min_ranks is None:
        return
    if not options.max_restarts:
        parser.error("expected --max-restarts=N with --min-ranks. Received: none")
    if options.np is not None and options.min_ranks > options.np:
        parser.error(f"expected --min-ranks up to -np {options.np}. Received: {options.min_ranks}")


def _open_closed_streams() -> None:
    """Opens what the caller closed of stdin, stdout and stderr, lest a pipe take its number."""
    for wanted, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It takes the least number that is free.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, "w" if wanted else "r", closefd=False))
