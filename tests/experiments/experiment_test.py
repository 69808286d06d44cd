"""Runs are kept as they are made, and none is made twice."""

import json
import os
import time

import pytest

from experiments import scaling
from experiments.experiment import Experiment, carry_out, select
from experiments.processes import Processes


@pytest.fixture
def made():
    return []


@pytest.fixture
def experiment(made):
    """Two stages: the second depends on what the first found."""

    def wanted(runs):
        yield from ({"x": x} for x in range(3))
        if len(select(runs, stage=1)) == 3:
            yield {"x": max(run["found"] for run in runs if run["stage"] == 1) + 10}

    def run(settings):
        made.append(settings["x"])
        return {"found": 2 * settings["x"], "stage": 1 + (settings["x"] > 9), "nan": float("nan")}

    def plot(runs, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("plot")

    return Experiment("two", "", wanted, run, lambda runs: f"{len(runs)} runs", plot)


def test_all_stages_are_made_and_reported(experiment, made, tmp_path):
    assert carry_out(experiment, str(tmp_path))
    assert made == [0, 1, 2, 14]
    assert (tmp_path / "two.md").read_text() == "4 runs\n"
    assert (tmp_path / "two.png").read_text() == "plot"
    lines = [json.loads(line) for line in (tmp_path / "two.jsonl").read_text().splitlines()]
    assert lines[3] == {"x": 14, "found": 28, "stage": 2, "nan": None}


def test_a_second_call_goes_on_behind_the_last_whole_line(experiment, made, tmp_path):
    carry_out(experiment, str(tmp_path))
    path = tmp_path / "two.jsonl"
    whole = path.read_text()
    path.write_text(whole[: whole.index("\n") + 5])  # as a process leaves it that is killed
    made.clear()
    assert carry_out(experiment, str(tmp_path))
    assert made == [1, 2, 14]
    assert path.read_text() == whole
    made.clear()
    assert carry_out(experiment, str(tmp_path))
    assert made == []


def test_no_run_begins_after_the_deadline(experiment, made, tmp_path):
    assert not carry_out(experiment, str(tmp_path), time.monotonic() - 1)
    assert made == []
    assert not (tmp_path / "two.md").exists()


def _of_a_process(setting):
    return {"found": 2 * setting["x"], "process": os.getpid()}


@pytest.mark.long
def test_several_processes_make_all_runs_and_none_after_the_deadline(tmp_path):
    def wanted(runs):
        del runs
        return [{"x": x} for x in range(8)]

    experiment = Experiment("p", "", wanted, _of_a_process, lambda runs: "", lambda runs, path: 0)
    with Processes(2) as processes:
        assert not list(processes(experiment, wanted([]), time.monotonic() - 1))
        assert carry_out(experiment, str(tmp_path), make=processes)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert sorted((line["x"], line["found"]) for line in lines) == [(x, 2 * x) for x in range(8)]
    assert os.getpid() not in {line["process"] for line in lines}


def test_every_point_has_the_same_tries_before_any_is_judged():
    settings = list(scaling.wanted([]))
    assert {setting["seed"] for setting in settings} == set(scaling.CHOOSING)
    for kind in scaling.kinds():
        tried = [setting["rate"] for setting in settings if kind.items() <= setting.items()]
        assert sorted(tried) == sorted(scaling.RATES * len(scaling.CHOOSING))
    found = [{**one, "validation": -abs(one["rate"] - 0.1), "test": 0} for one in settings]
    judged = list(scaling.wanted(found))[len(settings) :]
    assert {setting["seed"] for setting in judged} == set(scaling.JUDGED)
    assert {setting["rate"] for setting in judged} == {0.1}
