"""The command line: what is wrong is said in a line, and a budget that is over is no success."""

import subprocess
import sys

import pytest


def _run(*arguments):
    command = [sys.executable, "-m", "experiments", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ([], "Received: nothing."),
        (["no-such"], "Received: no-such."),
        (["scaling", "rates"], "Received: scaling rates."),
        (["scaling", "--budget=soon"], "expected a budget as 45m, 90s or 2h. Received: 'soon'."),
    ],
)
def test_wrong_arguments_are_told(arguments, received):
    done = _run(*arguments)
    assert done.returncode == 1
    assert received in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_budget_that_is_over_leaves_no_report(tmp_path):
    done = _run("all", "--budget=0s", f"--folder={tmp_path}")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "scaling: the time was over; call it again to go on" in lines
    assert len({line.partition(":")[2] for line in lines}) == 1 < len(lines)
    assert not list(tmp_path.iterdir())
