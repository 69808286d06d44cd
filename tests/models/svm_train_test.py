"""The training script of the support vector machine, on two real ranks."""

from __future__ import annotations

import re
import sys

from tests import programs

LIMIT_SECONDS = 200
TRAIN = [sys.executable, "-m", "models.svm.train"]


def _train(*flags):
    command = [*programs.ADASUMRUN, "-np", "2", "--", *TRAIN, *flags]
    return programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")


def test_two_ranks_train_test_and_compare():
    done = _train("--samples=1000", "--compare")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("iteration 0: gap 2.00e+00, 400 samples of rank 0 active") == 1
    assert done.stdout.count("Converged: ") == 1
    accuracy = float(re.search(r"test accuracy ([\d.]+)%", done.stdout).group(1))
    assert accuracy > 70
    assert float(re.search(r"relative error (\S+),", done.stdout).group(1)) < 1e-4
    assert "of both 0 not on the margin" in done.stdout


def test_refuses_a_cost_of_nothing_in_a_line():
    done = _train("--cost=0")
    assert done.returncode == 1
    assert "--cost=0.0: expected a finite number above 0." in done.stderr
    assert "Traceback" not in done.stderr


def test_refuses_other_arguments_in_a_line():
    done = _train("digits")
    assert done.returncode != 0
    assert "expected flags only. Received: digits" in done.stdout + done.stderr
