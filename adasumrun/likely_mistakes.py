"""What is most likely a mistake in how adasumrun was started: it says so, and goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from adasumrun import job

_PLACES = "SLURM_TASKS_PER_NODE"
# Of a shell that srun opens on one of its tasks alone.
_TERMINAL = "SLURM_PTY_PORT"


def told(ranks: int | None, hosts: str | None, environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence for each.

    Args:
      ranks: how many are to start; None leaves it to mpirun.
      hosts: what -H says; None is this host, or the scheduler's allocation.
      environment: of this process.
    """
    if (number := _number_started(environment)) > 1:
        yield (
            f"expected to be started once. Received: {number} times, by srun or mpirun, each for a "
            "job of its own. Say adasumrun without them: it starts the ranks of all hosts"
        )
    places = None if hosts else slurm_places(environment)
    if ranks is not None and places is not None and ranks > places:
        yield (
            f"expected ranks that Slurm has places for, {places} ({_PLACES}="
            f"{environment[_PLACES]}). Received: -np {ranks}. Ask Slurm for --ntasks={ranks}, or "
            "unset SLURM_JOB_ID where that job is over"
        )


def slurm_places(environment: Mapping[str, str]) -> int | None:
    """Returns how many ranks fit into Slurm's allocation: its tasks, and not their cores.

    Args:
      environment: says it as "2(x3),1", of three nodes and one.
    """
    if "SLURM_JOB_ID" not in environment:
        return None
    nodes = re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", environment.get(_PLACES, ""))
    return sum(int(tasks) * int(number or 1) for tasks, number in nodes) or None


def _number_started(environment: Mapping[str, str]) -> int:
    """Of as many adasumruns this is the first; a rank, and a terminal, may start one."""
    if job.PROCESS_VARIABLE in environment or _TERMINAL in environment:
        return 1
    if not job.is_launched(environment):
        return job.num_lone_tasks(environment)
    return (job.num_ranks(environment) or 1) if job.speaks(environment) else 1
