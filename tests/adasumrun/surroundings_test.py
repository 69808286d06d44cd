"""adasumrun where something is missing that every shell has, or where others have started it."""

import os
import tempfile

import pytest

from adasumrun import cli, likely_mistakes
from tests import programs

LIMIT_SECONDS = 60


def test_without_a_home_ranks_have_the_users(monkeypatch):
    """As services of systemd have none; Open MPI's mpirun starts nothing then."""
    monkeypatch.delenv("HOME")
    done = programs.run([*programs.ADASUMRUN, "-np", "2", "sh", "-c", "echo $HOME"], LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [os.path.expanduser("~")] * 2


@pytest.mark.parametrize("options", [(), ("--timeline=trace.json",)])
def test_a_working_directory_that_was_removed(options, tmp_path):
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    launcher = [*programs.ADASUMRUN, "-np", "1", *options, "true"]
    folder = tmp_path / "removed"
    folder.mkdir()
    done = programs.run(["sh", "-c", script, str(folder), *launcher], LIMIT_SECONDS)
    assert done.returncode == 1
    said = "adasumrun: expected a working directory. Received: No such file or directory"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_no_place_for_temporary_files(monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    assert cli.main(["-np", "1", "true"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("adasumrun: expected a folder for temporary files. Received: ")
    assert line.endswith("Set TMPDIR to a folder that you may write to")


SRUN = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "0"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}
STARTED = {
    "srun": (SRUN, 1),
    "its second task": ({**SRUN, "SLURM_PROCID": "1"}, 0),
    "srun --mpi=pmi2": ({**SRUN, "PMI_RANK": "0", "PMI_SIZE": "3"}, 1),
    "srun --mpi=pmix": ({**SRUN, "PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.1.0"}, 1),
    "mpirun": (MPIRUN, 1),
    "its second rank": ({**MPIRUN, "OMPI_COMM_WORLD_RANK": "1"}, 0),
    "a rank that trains": ({**MPIRUN, "TF_ADASUM_RANK_PROCESS": "7 job"}, 0),
    "srun --pty": ({**SRUN, "SLURM_PTY_PORT": "7"}, 0),
    "a shell": ({}, 0),
}


@pytest.mark.parametrize("by", STARTED)
def test_who_starts_several_is_told_by_the_first(by):
    environment, lines = STARTED[by]
    said = list(likely_mistakes.told(2, False, environment))
    assert len(said) == lines
    assert all("expected to be started once. Received: one of 3 processes" in each for each in said)
    assert not list(likely_mistakes.told(1, False, environment))  # a sweep


PLACES = {"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "2(x3),1"}


@pytest.mark.parametrize(
    ("ranks", "has_places", "environment", "lines"),
    [
        (7, False, PLACES, 0),
        (8, False, PLACES, 1),
        (8, True, PLACES, 0),
        (None, False, PLACES, 0),
        (8, False, {"SLURM_TASKS_PER_NODE": "1"}, 0),
        (2, False, {"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "1"}, 1),
        (8, False, {"SLURM_JOB_ID": "7"}, 0),
    ],
)
def test_more_ranks_than_slurm_has_places_for_are_told(ranks, has_places, environment, lines):
    said = list(likely_mistakes.told(ranks, has_places, environment))
    assert len(said) == lines
    assert all(f"Ask Slurm for --ntasks={ranks}" in line for line in said)
