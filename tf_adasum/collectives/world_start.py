"""How a process joins the world: by MPI where a launcher started it, else alone."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time

from adasumrun import job
from tf_adasum.collectives import native, stalls
from tf_adasum.collectives.mailbox import Mailbox
from tf_adasum.collectives.refusals import refusal

_SECONDS_TO_PASS_ON = 0.3
_log = logging.getLogger("tf_adasum")


def connect():
    """Returns the library's communicator of all ranks, or of this process alone; collective.

    Raises:
        As `world`.
    """
    if not job.is_launched():
        _tell_lone_tasks()
        return native.lib.Communicator.of_self()
    # MPI waits for ever for a rank that does not come.
    rank = job.rank() or os.environ.get("PMIX_RANK", "?")
    _check_no_child(rank)
    with contextlib.closing(native.lib.StartLimit(rank)):
        return _connect_by_mpi()


def _tell_lone_tasks() -> None:
    """A sweep may start programs so. But most often they are meant to be ranks."""
    if (number := job.num_lone_tasks()) > 1:
        _log.warning(
            "srun has started %d tasks of this program without MPI: each trains alone. To train "
            "together start them by adasumrun in a batch script, or by srun --mpi=pmix.",
            number,
        )


def _check_no_child(rank: str) -> None:
    """Raises RuntimeError in a process that a rank started: the launcher's variables name the rank.

    MPI would take it for the rank, and wait for its parent, or for ranks that never come.
    """
    here, of_job = str(os.getpid()), os.environ.get("PMIX_NAMESPACE", "")
    of_rank, _, its_job = os.environ.get(job.PROCESS_VARIABLE, "").partition(" ")
    if of_rank in ("", here) or its_job != of_job:  # another job: mpirun, called by a rank
        os.environ[job.PROCESS_VARIABLE] = f"{here} {of_job}"
        return
    expected = f"rank {rank}'s own process, {of_rank}"
    advice = "Use tf_adasum in the rank alone: under `if __name__ == '__main__':` where it starts "
    raise RuntimeError(refusal(expected, f"{here}, which it started", advice + "others."))


def _connect_by_mpi():
    from mpi4py import MPI  # starts MPI with MPI_THREAD_MULTIPLE

    if MPI.Is_finalized():
        advice = "Use tf_adasum before MPI.Finalize()."
        raise RuntimeError(refusal("MPI that is not finalized", "MPI after its end", advice))
    if not MPI.Is_initialized():  # mpi4py.rc.initialize is off
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    ours, theirs = native.lib.mpi_version(), MPI.Get_library_version().split("\n")[0].rstrip("\0")
    if ours != theirs:
        advice = "Set MPI4PY_LIBMPI to the libmpi that tf_adasum was built with."
        raise RuntimeError(refusal(f"mpi4py to use the MPI '{ours}'", f"'{theirs}'", advice))
    _abort_on_uncaught_exception(MPI)
    connected = native.lib.Communicator.of_mpi(MPI.COMM_WORLD.py2f())
    told = job.num_ranks() or 1
    if connected.size == 1 < told:
        expected = f"{told} ranks, as the launcher of this process says"
        received = f"1, since '{ours}' does not know that launcher"
        advice = "Start the program by adasumrun, or by the mpirun of that MPI."
        raise RuntimeError(refusal(expected, received, advice))
    if connected.size > 1:
        stalls.watch(MPI)
    return connected


def mailbox() -> Mailbox:
    """Returns what ranks of a world of several send each other without waiting."""
    from mpi4py import MPI  # which `connect` has started

    return Mailbox(MPI)


def _abort_on_uncaught_exception(mpi) -> None:
    """A rank that dies by an exception ends the others, which would wait for it in vain."""
    if mpi.COMM_WORLD.Get_size() == 1:
        return
    previous, home = sys.excepthook, os.getpid()

    def hook(kind, value, traceback):
        previous(kind, value, traceback)
        if os.getpid() != home:
            return  # a forked child, whose parent goes on
        if getattr(sys, "last_value", None) is not value:
            return  # called by a program, to show what it has caught
        sys.stdout.flush()
        sys.stderr.flush()
        # MPICH's launcher drops what it has not passed on when it hears of the end.
        time.sleep(_SECONDS_TO_PASS_ON)
        mpi.COMM_WORLD.Abort(1)

    sys.excepthook = hook
