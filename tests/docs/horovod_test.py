"""The scripts of docs/horovod.md run as they are printed, on two real ranks, and learn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import programs

TEXT = (Path(__file__).resolve().parents[2] / "docs/horovod.md").read_text()
SCRIPTS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
LIMIT_SECONDS = 200


@pytest.mark.parametrize("script", SCRIPTS, ids=["fit", "tape"])
def test_script_runs_on_two_ranks(script, tmp_path):
    (tmp_path / "train.py").write_text(script)
    command = [*programs.ADASUMRUN, "-np", "2", str(tmp_path / "train.py")]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(value) for value in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0] / 4
    first, second = re.findall(r"weights (\S+)", done.stdout)
    assert first == second
