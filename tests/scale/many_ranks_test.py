"""Many more processes than cores: correct, and none keeps more memory than the program says.

The program (many_ranks.cc) is C++ without TensorFlow, of which 64 would not fit this machine.
"""

from pathlib import Path

import pytest

from tests import programs

PROGRAM = Path(__file__).with_name("many_ranks")
WORLDS = ["shared memory", "MPI alone", "4 hosts"]
# The longest took 40 s on two cores with other load.
LIMIT_SECONDS = 550


@pytest.mark.parametrize("ranks", [16, 33, 64], ids="ranks{}".format)
def test_many_ranks_agree_with_the_tree_and_keep_little(ranks):
    launcher = [*programs.ADASUMRUN, "-np", str(ranks), f"--timeout={LIMIT_SECONDS - 20}"]
    program = [str(PROGRAM), str(LIMIT_SECONDS - 40)]
    done = programs.run([*launcher, *program], LIMIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = [f"{ranks} ranks, {world}: a rank keeps at most " for world in WORLDS]
    lines = done.stdout.splitlines()
    assert len(lines) == len(kept), done.stdout
    for line, expected in zip(lines, kept, strict=True):
        assert line.startswith(expected)
