"""Chunks that are late by seconds: what nobody waits for ends well, with group and program."""

import sys
from pathlib import Path

import pytest

from tests import programs

HERE = Path(__file__).absolute().parent  # not resolved: what Bazel built is beside the link
LATE_WIRE = HERE.parent.parent / "benchmarks" / "liblate_wire.so"
LIMIT_SECONDS = 100

PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
import tf_adasum as adasum
from benchmarks.late_wire import set_lateness
from tf_adasum.collectives.deadline_allreduce import DeadlineAllreduce

milliseconds, num_groups = float(sys.argv[1]), int(sys.argv[2])
world = adasum.world()
set_lateness(0.05, milliseconds)
left_out = 0
for number in range(num_groups):
    # The group of the last turn has ended, with messages that are on their way still.
    # If nothing is late, all of it is waited for: 20 MiB, which no queue holds.
    length, most = (200_000, 1) if milliseconds else (5_000_000, 0)
    allreduce = DeadlineAllreduce(world, f"group {number}", 20, most)
    residual = np.zeros(length, np.float32)
    sums = np.zeros_like(residual)
    for step in range(5):
        mine = np.full_like(residual, 2.0 ** step * (world.rank + 1)) + residual
        (summed,), (rest,), share = allreduce.reduce([tf.constant(mine)], ["sum"])
        sums, residual = sums + summed.numpy(), rest.numpy()
        left_out += float(share)
    # Small whole numbers: exact in any order.
    (waits,) = adasum.allreduce([tf.constant(residual)], "sum")
    np.testing.assert_array_equal(sums + waits, 31 * world.size * (world.size + 1) / 2)
assert milliseconds == 0 or left_out > 0
print("ENDED", flush=True)
"""


# How Open MPI moves bytes: a receiver reads them by itself; or the sender must push them, through
# shared memory or TCP.
WIRES = {
    "reads": {},
    "pushes": {"OMPI_MCA_btl": "sm,self", "OMPI_MCA_smsc": "^cma,knem,xpmem"},
    "tcp": {"OMPI_MCA_btl": "tcp,self"},
}


@pytest.mark.parametrize(
    ("ranks", "milliseconds", "num_groups", "wire"),
    # Messages that come when their group is gone; and when the program is.
    [
        pytest.param(3, 100, 6, "reads", marks=pytest.mark.long),
        (2, 60, 6, "pushes"),
        pytest.param(4, 5000, 2, "tcp", marks=pytest.mark.long),
        pytest.param(3, 0, 3, "pushes", marks=pytest.mark.long),
    ],
)
def test_what_is_late_is_nobodys(tmp_path, ranks, milliseconds, num_groups, wire):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "90"]
    rank = ["env", f"LD_PRELOAD={LATE_WIRE}", sys.executable, str(path)]
    done = programs.run(
        [*launcher, *rank, str(milliseconds), str(num_groups)],
        LIMIT_SECONDS,
        OMPI_MCA_pml="ob1",
        # Its look at the ranks once a second would move messages that nothing else moves.
        TF_ADASUM_STALL_WARNING_SECONDS="0",
        TF_ADASUM_TIMEOUT_SECONDS="10",
        TF_CPP_MIN_LOG_LEVEL="3",
        **WIRES[wire],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ENDED") == ranks, done.stdout + done.stderr
