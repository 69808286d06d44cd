"""The demo as `make demo` starts it, but short: 2 ranks with 2 replicas each."""

from __future__ import annotations

import json
import sys

import pytest

from tests import programs

LIMIT_SECONDS = 200
SCREEN_LINES, SCREEN_COLUMNS = 24, 110
STEPS = 12933 // (4 * 256)


def call(module, *flags):
    command = [sys.executable, "-m", module, *flags]
    return programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Flags that shorten a training, among them a folder for its data set."""
    folder = tmp_path_factory.mktemp("demo")
    return ["--workers=4", "--batch_size=256", "--epochs=2", f"--data_dir={folder}"]


@pytest.fixture(scope="module")
def shown(short, tmp_path_factory):
    """Output, results and plot of the demo."""
    folder = tmp_path_factory.mktemp("results")
    files = [f"--json={folder / 'demo.json'}", f"--plot={folder / 'demo.png'}"]
    done = call("models.digits.demo", "--ranks=2", *short, *files)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((folder / "demo.json").read_text()), folder / "demo.png"


@pytest.mark.long
def test_output_fits_a_screen(shown):
    done, _, _ = shown
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) <= SCREEN_LINES, "\n".join(lines)
    assert max(map(len, lines)) <= SCREEN_COLUMNS
    assert "\b" not in done.stdout and "\r" not in done.stdout + done.stderr, "no progress bar"


def test_one_worker_is_compared_with_each_reduction(shown):
    done, runs, plot = shown
    workers = [(run["reduction"], run["workers"]) for run in runs]
    assert workers == [("none", 1), ("sum", 4), ("mean", 4), ("adasum", 4)]
    assert [run["curve"][-1]["step"] for run in runs] == [2 * (12933 // 256), *[2 * STEPS] * 3]
    assert all(len(run["accuracies"]) == 2 for run in runs)
    assert runs[0]["accuracies"][-1] > 0.8, "one worker learns"
    assert "adasum: 4 workers (2 ranks x 2 replicas)" in done.stdout
    assert "| epochs to " in done.stdout and "| one worker " in done.stdout
    assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
def test_ranks_times_replicas_are_workers(shown, short, tmp_path):
    """Four replicas of one process train as two on each of two ranks; the mean knows no order."""
    path = tmp_path / "one.json"
    flags = ["--reduction=mean", "--test_shift=1", "--noorthogonality", "--progress=epochs"]
    done = call("models.digits.train", *short, *flags, f"--json={path}")
    assert done.returncode == 0, done.stdout + done.stderr
    (one,) = json.loads(path.read_text())
    there = next(run for run in shown[1] if run["reduction"] == "mean")
    assert one["loss"] == pytest.approx(there["loss"], rel=1e-3)
    assert one["curve"][0]["accuracy"] == pytest.approx(there["curve"][0]["accuracy"], abs=1e-6)
    assert "mean:" in done.stderr and "0/2" in done.stderr, "a bar of the epochs"


def test_help():
    done = call("models.digits.demo", "--help")
    assert done.returncode == 0
    assert "--ranks" in done.stdout and "--learning_rate" in done.stdout
