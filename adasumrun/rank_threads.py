"""What a rank may take of its host: threads for its share of the cores, GPU memory as it needs it.

    python -m adasumrun.rank_threads PROGRAM ARGUMENTS...

sets the limits, and what is preloaded (`preload`), and becomes the program. adasumrun starts ranks
in this way where it can't know beforehand how many of them share a host, and how many cores that
has.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from adasumrun import hosts, preload

# What the launchers of Open MPI and PRRTE, and Hydra (MPICH, Intel MPI), say to a rank.
_RANKS_ON_HOST = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# Of Open MPI: the folder that the launcher is in. Ranks of a host without it start in the user's.
_FOLDER = "OMPI_MCA_initial_wdir"
_NOT_FOUND = 127  # as shells have it


def limits(ranks_here: int) -> dict[str, str]:
    """Returns the variables that keep so many ranks of this host out of each other's way."""
    if ranks_here == 1:
        return {}
    cores = hosts.available_cores()
    threads = max(1, cores // ranks_here)
    variables = {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        # One would do for the arithmetic, but a blocked op must not keep the others waiting.
        "TF_NUM_INTEROP_THREADS": str(max(2, threads)),
        "OMP_NUM_THREADS": str(threads),
        # TensorFlow opens all GPUs in every rank, and the first one would take all their memory.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    if ranks_here > cores:
        # A rank that waits for a message gives its core to the one that has to send it.
        variables["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return variables


def main(program: list[str]) -> int:
    """Becomes the program, with limits for this host; what the user has set is kept.

    Args:
      program: its name and arguments.

    Returns:
      The exit code of a shell that does not find a program; otherwise not at all.
    """
    count = next((os.environ[name] for name in _RANKS_ON_HOST if name in os.environ), None)
    if count is None:
        print(
            f"adasumrun: expected one of {', '.join(_RANKS_ON_HOST)} on {socket.gethostname()}. "
            "Received: none, so this rank's threads have no limit. Set TF_NUM_INTRAOP_THREADS.",
            file=sys.stderr,
        )
    else:
        os.environ.update({**limits(int(count)), **os.environ})
    folder = os.environ.get(_FOLDER)
    if folder is not None and not os.path.isdir(folder):
        print(
            f"adasumrun: expected the working directory {folder} on {socket.gethostname()}. "
            f"Received: none, so this rank works in {os.getcwd()}. Make it there, too.",
            file=sys.stderr,
        )
    os.environ.update(preload.variables(os.environ))
    # Python ignores it, and what a process ignores the program it becomes ignores as well.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(
            f"adasumrun: expected the program {program[0]} on {socket.gethostname()}. "
            f"Received: {error.strerror}. Install it there too.",
            file=sys.stderr,
        )
        return _NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
