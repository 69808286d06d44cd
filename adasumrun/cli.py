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

from adasumrun import (
    answering_hosts,
    command_line,
    inputs,
    likely_mistakes,
    mpirun,
    preload,
    process_tree,
    requests,
    restart,
    surroundings,
    timeline,
)
from adasumrun.lines import say
from adasumrun.watch import Ended, Watch


def main(argv: list[str] | None = None) -> int:
    """Starts the ranks and waits for them.

    Args:
      argv: command line without the program's name; None for that of this process.

    Returns:
      The exit code of the first rank that failed (128 + signal if a signal ended it) in the last
      start, 0 if none did, 124 after --timeout, 130 after Ctrl-C, 143 after SIGTERM, 129 after
      SIGHUP, 1 if nothing was started.
    """
    _open_closed_streams()
    _let_outputs_wait()
    options = command_line.parse(sys.argv[1:] if argv is None else list(argv))
    try:
        surroundings.complete(os.environ)
        inputs.check(options)
        path = mpirun.find()
        if mpirun.opens_input(options):
            inputs.check_opened()
    except mpirun.LaunchError as error:
        say(str(error))
        return 1
    has_places = bool(options.hosts or options.mpi_args)
    for sentence in likely_mistakes.told(options.np, has_places, os.environ):
        say(sentence)
    with requests.Requests() as asked:
        watch = Watch(asked, options.timeout, options.grace)
        try:
            code = restart.run(options, lambda *where: _start(path, options, watch, *where), asked)
        except mpirun.LaunchError as error:
            say(str(error))
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
    environment = _environment(options, shares, ranks_here)
    environment[requests.RESTARTS_VARIABLE] = str(num_restarts)
    if options.timeline:
        _discard_timelines(environment[timeline.VARIABLE])
    command = mpirun.command_line(path, options, environment)
    if options.verbose:
        say(shlex.join(command))
        obstacle = preload.obstacle(environment)
        if obstacle is not None:
            say(f"ranks on this host keep their tensors outside of shared memory: {obstacle}")
    gets_input = options.stdin != "none" and not mpirun.opens_input(options)
    with surroundings.temporary_folder() as folder:
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
    if has_lost_host and ranks_here is None and ended.code == 0:
        return Ended(1, is_final=False)  # Open MPI's mpirun takes that for a success
    return ended


def _environment(
    options: argparse.Namespace, shares: dict[str, float], ranks_here: int | None
) -> dict[str, str]:
    """What the ranks are told by the options."""
    environment = mpirun.rank_environment(os.environ, ranks_here)
    if options.stall_warning is not None:
        environment[mpirun.STALL_WARNING_VARIABLE] = str(options.stall_warning)
    if shares:
        environment[mpirun.SHARES_VARIABLE] = mpirun.rank_shares(options, shares)
    if mpirun.build_info().MPI_LIBRARY:
        # Also for programs that import mpi4py before tf_adasum.
        environment.setdefault("MPI4PY_LIBMPI", mpirun.build_info().MPI_LIBRARY)
    if options.timeline:
        environment[timeline.VARIABLE] = os.path.abspath(options.timeline)
    if options.verbose:
        environment[mpirun.VERBOSE_VARIABLE] = "1"
    return environment


def _name_silent_hosts(options: argparse.Namespace) -> None:
    """Says in a line what mpirun says in twenty."""
    answers = answering_hosts.ask(options.hosts, options.mpi_args)
    silent = [entry.partition(":")[0] for entry in answers.silent]
    if silent:
        asked = shlex.join([*answers.command, silent[0], "true"])
        say(
            f"expected hosts that can be reached. Received: no answer from {', '.join(silent)} to "
            f"`{asked}`. Make that work, without a password"
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
        say(
            f"expected to write the timeline {path}. Received: {error}. The ranks' files are left, "
            f"{path}.rank*"
        )
        return
    if merged.num_files:
        say(f"timeline {path} (open it at https://ui.perfetto.dev)")
        if merged.encoded_bytes:
            say(
                f"{merged.num_bytes / 1e6:.3g} MB were encoded in "
                f"{merged.encoded_bytes / 1e6:.3g} MB, all ranks together"
            )
    else:
        say(f"no rank left a timeline at {path}")


def _open_closed_streams() -> None:
    """Opens what the caller closed of stdin, stdout and stderr, lest a pipe take its number."""
    for wanted, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It takes the least number that is free.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, "w" if wanted else "r", closefd=False))


def _let_outputs_wait() -> None:
    """Lets writers wait for readers: mpirun drops what does not fit in where they may not."""
    for output in (sys.stdout, sys.stderr):
        try:
            os.set_blocking(output.fileno(), True)
        except OSError:
            pass  # a test's, without a file behind it
