"""What the launcher's environment says of the MPI job that this process is a rank of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping

# The process that joined the job as a rank: programs that it starts have its variables, too.
PROCESS_VARIABLE = "TF_ADASUM_RANK_PROCESS"

# Set in every rank by the launchers of Open MPI, PRRTE, MPICH, Intel MPI and Slurm's PMI plugins.
_LAUNCHER_VARIABLES = (
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_SIZE",
    "PMI_RANK",
    "MPI_LOCALNRANKS",
)
# Of these, those that hold its rank, and that mpirun and its daemons have not.
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Where a launcher tells the number of all ranks, and of those on this host.
_SIZE_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
)
# Slurm's srun tells these to each task, be it a rank of MPI or not.
_TASK, _NUM_TASKS = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"


def is_launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a rank of an MPI job, rather than a program of its own."""
    return any(variable in environment for variable in _LAUNCHER_VARIABLES)


def rank(environment: Mapping[str, str] = os.environ) -> str | None:
    """The rank as the launcher says it, before MPI is started; None where it does not."""
    found = (environment[name] for name in _RANK_VARIABLES if name in environment)
    return next(found, None)


def num_ranks(environment: Mapping[str, str] = os.environ) -> int | None:
    """How many ranks the job has, before MPI is started; None where no launcher says it."""
    names = [name for name, _ in _SIZE_VARIABLES]
    # A launcher's daemon that srun has started hands its own number of tasks on.
    is_task = environment.get("PMIX_NAMESPACE", "").startswith("slurm.")
    return _number(environment, [*names, _NUM_TASKS] if is_task else names)


def num_lone_tasks(environment: Mapping[str, str] = os.environ) -> int:
    """As the first of the tasks that srun has started without MPI: how many these are; else 0."""
    if is_launched(environment) or environment.get(_TASK) != "0":
        return 0
    return _number(environment, [_NUM_TASKS]) or 0


def speaks(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process writes what a job writes once: rank 0, or one that is told no rank."""
    return (rank(environment) or environment.get("PMIX_RANK")) in (None, "0")


def ranks_on_this_host(environment: Mapping[str, str] = os.environ) -> int | None:
    """How many ranks are on this one's host; None where the launcher does not say it."""
    return _number(environment, (name for _, name in _SIZE_VARIABLES))


def is_on_one_host(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether all ranks are known to be on this host."""
    if not is_launched(environment):
        return True
    return any(
        size in environment and environment[size] == environment.get(local_size)
        for size, local_size in _SIZE_VARIABLES
    )


def _number(environment: Mapping[str, str], names: Iterable[str]) -> int | None:
    found = (environment[name] for name in names if name in environment)
    return next((int(number) for number in found if number.isdigit()), None)


def spare_libc(environment: MutableMapping[str, str] = os.environ) -> None:
    """Keeps UCX, which comes with MPI, from rewriting code of libc; for a job on one host.

    UCX puts jumps into mmap, munmap, madvise and brk when it is loaded, to hear when memory goes
    that a network card knows. Threads that are inside at that moment may crash
    (github.com/openucx/ucx/pull/11795), and TensorFlow has many. Ranks of one host talk through no
    card. What the user has set is kept.
    """
    environment.setdefault("UCX_MEM_EVENTS", "n")
