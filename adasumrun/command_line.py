"""The command line of adasumrun."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from adasumrun import advise, argument_types, mpirun, restart

# Of other launchers (Horovod 0.28, Open MPI 5.0, PyTorch 2): what is said of an option.
_ELSEWHERE = {
    "--min-np": "is --max-restarts=N --min-ranks=K here",
    "--num-proc": "is -np N here",
    "--nproc_per_node": "is -H HOST:N,... here, or -np N of all hosts together",
    "--nproc-per-node": "is -H HOST:N,... here, or -np N of all hosts together",
    "--timeline-filename": "is --timeline=FILE here",
    "--mpi": "is not needed here: the ranks always use MPI",
    "--gloo": "is not needed here: the ranks always use MPI",
    "--max-np": "is not needed here: a restart takes the hosts that answer",
    "--host-discovery-script": "is not needed here: a restart takes the hosts of -H that answer",
    "--slots-per-host": "is -H HOST:N,... here",
    "--network-interface": "is --mpi-args='--mca btl_tcp_if_include NAME' here",
    "--fusion-threshold-mb": "is AdasumStrategy(bucket_bytes=N) here",
    "--autotune": "is not needed here: ranks measure what suits their host",
    "--check-build": "is not needed here: `import tf_adasum` says what is missing",
    "--mca": "is --mpi-args='--mca NAME VALUE' here",
    "--allow-run-as-root": "is not needed here",
    "--oversubscribe": "is not needed here",
    "--bind-to": "is not needed here: ranks are not bound",
    "-m": "belongs to python here: python -m MODULE",
    "-x": "is --mpi-args='-x NAME' here, for ranks on other hosts; others have all variables",
}


class _Parser(argparse.ArgumentParser):
    """Says of other launchers' options what stands for them here."""

    # What it was given; argparse names only what it could not place.
    given: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        is_asking = message.startswith("the following arguments are required")
        if is_asking or message.startswith("unrecognized arguments"):
            words = self.given if is_asking else message.split()
            words = [word.partition("=")[0] for word in words]
            known = [word for word in dict.fromkeys(words) if word in _ELSEWHERE]
            message += "".join(f". {word} {_ELSEWHERE[word]}" for word in known)
        super().error(message)


def parse(argv: list[str]) -> argparse.Namespace:
    """Reads the command line.

    Args:
      argv: its words without the program's name.

    Returns:
      The options; `program` is the list of words that every rank runs.

    Raises:
      SystemExit: the command line is wrong, which has been said, or asks for help.
    """
    advises = argv[:1] == [advise.COMMAND]
    parser = _Parser(
        allow_abbrev=False,  # --mpi, of Horovod's, is no --mpi-args
        prog="adasumrun advise" if advises else "adasumrun",
        description="Measures the first fit of a training script and predicts it for more ranks."
        if advises
        else "Starts the ranks of a training program with the MPI tf_adasum was built with.",
        epilog="Example: adasumrun -np 4 python train.py --epochs=3. `adasumrun advise -np 2 "
        "train.py` measures a step of it and predicts more ranks: adasumrun advise --help",
    )
    parser.given = argv
    if advises:
        advise.add_options(parser)
    _add_places(parser)
    _add_streams(parser)
    _add_endings(parser)
    _add_mpi(parser)
    parser.add_argument("program", help="what every rank runs; a .py file runs with this Python")
    arguments = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    arguments.required = False  # else argparse asks for them, too, where no program is given
    options = parser.parse_args(argv[1:] if advises else argv)
    _check_restarts(parser, options)
    if not options.program:
        parser.error("expected a program. Received: ''. Is a variable empty?")
    options.program = [options.program, *options.arguments]
    if advises:
        options.program = advise.program(parser, options)
    return options


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-np",
        "-n",
        "--np",
        type=argument_types.positive,
        metavar="N",
        help="number of ranks (default: mpirun's, one a core)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-H",
        "--hosts",
        "--host",
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


def _add_streams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stdin",
        choices=mpirun.HYDRA_INPUTS,
        default="none",
        help="the rank that reads what is piped into adasumrun: 0, or none, which is the default. "
        "All others find their input empty",
    )
    parser.add_argument(
        "--timeline",
        type=argument_types.file_to_write,
        metavar="FILE",
        help="write what each rank did when, as a Chrome trace",
    )


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
        help="how long ranks may take after SIGTERM or SIGHUP to back up and end, where their "
        "program has adasum.callbacks.BackupAndRestore; others end at once. SIGUSR1 lets them back "
        "up and go on (default: 30)",
    )


def _add_mpi(parser: argparse.ArgumentParser) -> None:
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
        help="print the mpirun command, why tensors here lie outside of shared memory if they do, "
        "and what the ranks found to suit their hosts",
    )


def _check_restarts(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.min_ranks is None:
        return
    if not options.max_restarts:
        parser.error("expected --max-restarts=N with --min-ranks. Received: none")
    if options.np is not None and options.min_ranks > options.np:
        parser.error(f"expected --min-ranks up to -np {options.np}. Received: {options.min_ranks}")
