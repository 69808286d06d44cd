"""What delta mode needs beside weights and slots: one copy of the gradients and one bucket."""

import json
import sys

from tests import programs

# Dense layers of 9 MiB. A bucket closes once it holds 25 MiB: with the third of them.
LAYERS, WIDTH, STEPS = 8, 1536, 4
LARGEST_BUCKET_MIB = 28


def test_peak_memory_of_delta_mode(tmp_path):
    figures = tmp_path / "memory.json"
    program = [sys.executable, "-m", "benchmarks.memory", "--ranks=2", "--method=adasum delta"]
    done = programs.run(
        [
            *program,
            f"--layers={LAYERS}",
            f"--width={WIDTH}",
            f"--steps={STEPS}",
            f"--json={figures}",
        ],
        300,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    measured = json.loads(figures.read_text())
    (row,) = measured["rows"]
    assert row["extra_mib"] <= measured["gradient_mib"] + LARGEST_BUCKET_MIB
