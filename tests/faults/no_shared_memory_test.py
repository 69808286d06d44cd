"""Ranks of a host that can't open each other's memory use MPI, all of them; rank 0 says so."""

import sys

import pytest

from tests import programs

LIMIT_SECONDS = 250
# Rank 1 is what a container with processes of its own is, or a process that nobody may trace. Root
# may trace all, unless it gives that up.
REFUSALS = {
    "namespace": f'[ {programs.RANK} = 0 ] || prefix="unshare --pid --fork --mount-proc"',
    "hardened": 'prefix="setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace"',
}
PROGRAM = """
import ctypes, sys
import numpy as np
import tf_adasum as adasum
from mpi4py import MPI

PR_SET_DUMPABLE = 4
if sys.argv[1] == "hardened" and MPI.COMM_WORLD.rank == 1:
    assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
world = adasum.world()
array = np.full(100_000, world.rank + 1.0, np.float32)
world.allreduce_arrays([array], "sum", "large")
part = world.split(0)
part.allreduce_arrays([array], "mean", "of a part")
part.close()
print(f"rank {world.rank}: {array[0]}", flush=True)
"""


@pytest.mark.parametrize(
    ("refusal", "wanted"), [("namespace", 1), ("hardened", 1), ("namespace", 0)]
)
def test_all_ranks_use_mpi_and_rank_0_says_so_once(refusal, wanted, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    script = f'{REFUSALS[refusal]}; exec $prefix "$@"'
    command = [*programs.ADASUMRUN, "-np", "2", "sh", "-c", script, "sh", sys.executable]
    command += [str(program), refusal]
    done = programs.run(command, LIMIT_SECONDS, TF_ADASUM_SHARED_MEMORY=str(wanted))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0: 3.0", "rank 1: 3.0"]
    told = [line for line in done.stderr.splitlines() if "can't share memory" in line]
    assert len(told) == wanted, done.stderr
    assert all(line.startswith("tf_adasum: rank 0: ") for line in told)
