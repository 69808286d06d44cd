"""README's script runs as it is printed, on two real ranks."""

from __future__ import annotations

import re
from pathlib import Path

from tests import programs

README = Path(__file__).resolve().parents[2] / "README.md"
LIMIT_SECONDS = 200


def test_script_runs_on_two_ranks(tmp_path):
    (script,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(script.splitlines()) <= 12
    (tmp_path / "train.py").write_text(script)
    command = [*programs.ADASUMRUN, "-np", "2", str(tmp_path / "train.py")]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    last = [float(value) for value in re.findall(r"accuracy: ([\d.]+)", done.stdout)][-1]
    assert last > 0.9
