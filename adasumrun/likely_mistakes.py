"""What is most likely a mistake in how adasumrun was started: it says so, and goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adasumrun import hosts, job

# Of a shell that srun opens on one of its tasks alone.
_TERMINAL = "SLURM_PTY_PORT"


def told(ranks: int | None, has_places: bool, environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence for each.

    Args:
      ranks: how many are to start; None leaves it to mpirun.
      has_places: whether the command line says where they are to run.
      environment: of this process.
    """
    # A sweep may start many jobs of one rank.
    if ranks != 1 and (number := _number_started(environment)) > 1:
        yield (
            f"expected to be started once. Received: one of {number} processes of srun or mpirun, "
            "each of which may start a job of its own. Say adasumrun without them: it starts the "
            "ranks of all hosts"
        )
    places = None if has_places else hosts.slurm_places(environment)
    if ranks is not None and places is not None and ranks > places:
        setting = f"{hosts.SLURM_PLACES}={environment[hosts.SLURM_PLACES]}"
        yield (
            f"expected ranks that Slurm has places for, {places} ({setting}). Received: -np "
            f"{ranks}. Ask Slurm for --ntasks={ranks}, or unset SLURM_JOB_ID where that job is over"
        )


def _number_started(environment: Mapping[str, str]) -> int:
    """Of as many adasumruns this is the first; a rank, and a terminal, may start one."""
    if job.PROCESS_VARIABLE in environment or _TERMINAL in environment:
        return 1
    if not job.is_launched(environment):
        return job.num_lone_tasks(environment)
    return (job.num_ranks(environment) or 1) if job.speaks(environment) else 1
