"""The training script as a user starts it: one process, and two real ranks."""

from __future__ import annotations

import json
import math
import sys

import pytest

from tests import programs

LIMIT_SECONDS = 200
TRAIN = [sys.executable, "-m", "models.digits.train", "--batch_size=128", "--epochs=1"]
ON_2_RANKS = [*programs.ADASUMRUN, "-np", "2", "--"]


def call(command):
    return programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Results and output of two workers: as two ranks, and as two devices of one process."""
    folder = tmp_path_factory.mktemp("train")
    flags = [f"--data_dir={folder}", "--optimizer=sgd", "--learning_rate=0.1", "--reduction=adasum"]
    made = {}
    commands = {"ranks": ON_2_RANKS + TRAIN + flags, "one": [*TRAIN, *flags, "--workers=2"]}
    for name, command in commands.items():
        path = folder / f"{name}.json"
        done = call([*command, f"--json={path}", f"--plot={folder / name}.png"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert (folder / f"{name}.png").stat().st_size > 10_000
        made[name] = json.loads(path.read_text())[0], done.stdout
    return made


@pytest.mark.parametrize("name", ["ranks", "one"])
def test_learns(trained, name):
    run, _ = trained[name]
    assert run["workers"] == 2
    assert run["loss"] < 0.8 * math.log(10), "less than a guess"
    assert run["accuracy"] > 0.5
    points = run["curve"]
    assert [points[0]["step"], points[-1]["step"]] == [0, 12933 // 256]
    assert points[-1]["accuracy"] == pytest.approx(run["accuracy"], abs=1e-6)
    assert all(0.5 <= point["orthogonality"] <= 1 for point in points)


def test_two_ranks_and_two_devices_train_alike(trained):
    ranks, one = trained["ranks"][0], trained["one"][0]
    # Devices and ranks add in different orders, and 50 steps at this rate make .2 % of the
    # rounding.
    assert ranks["loss"] == pytest.approx(one["loss"], rel=1e-2)
    for here, there in zip(ranks["curve"], one["curve"]):
        assert here["orthogonality"] == pytest.approx(there["orthogonality"], abs=1e-3)


def test_only_rank_0_speaks(trained):
    output = trained["ranks"][1]
    assert output.count("adasum: 2 workers") == 1
    assert output.count("| test accuracy ") == 1
    assert "50/50" in output, "a progress bar"


@pytest.mark.long
def test_wrong_number_of_workers_is_told():
    done = call([*ON_2_RANKS, *TRAIN, "--workers=3"])
    assert done.returncode != 0
    assert "Received: --workers=3 on 2 ranks" in done.stdout + done.stderr


@pytest.mark.long
def test_unknown_data_set_is_told_in_one_line(tmp_path):
    done = call([*TRAIN, "--dataset=minst", f"--data_dir={tmp_path}"])
    assert done.returncode == 1
    assert "Received: 'minst'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("flag", ["json", "plot"])
def test_a_file_that_cannot_be_written_is_refused_before_the_training(tmp_path, flag):
    path = tmp_path / "missing" / "file"
    done = call([*ON_2_RANKS, *TRAIN, f"--data_dir={tmp_path}", f"--{flag}={path}"])
    assert done.returncode == 1
    said = f"--{flag}={path}: expected a file in a folder that is there and can be written."
    assert said in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_no_rank_waits_for_data_that_another_cannot_prepare(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    done = call([*ON_2_RANKS, *TRAIN, f"--data_dir={taken}"])
    assert done.returncode == 1
    assert done.stderr.count("rank 0: expected to prepare the data set digits in ") == 1
    said = "rank 1: another rank could not prepare the data set digits, and says why."
    assert done.stderr.count(said) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_too_few_images_for_a_step_are_told_in_one_line(tmp_path):
    done = call([*TRAIN, "--batch_size=12934", f"--data_dir={tmp_path}"])
    assert done.returncode == 1
    said = "expected images for one step of all workers, 12934. Received: 12933. "
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.long
def test_one_worker_alone_is_drawn(tmp_path):
    path = tmp_path / "one.png"
    done = call([*TRAIN, "--reduction=none", f"--data_dir={tmp_path}", f"--plot={path}"])
    assert done.returncode == 0, done.stderr
    assert f"Plot: {path}\n" in done.stdout
    assert path.stat().st_size > 10_000
