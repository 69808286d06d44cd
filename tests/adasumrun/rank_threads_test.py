"""What a rank sets for itself where the launcher does not know what its host has to do."""

import signal
import sys

import pytest

from adasumrun import hosts
from tests import programs

LIMIT_SECONDS = 30
COUNTS = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
LIMITS = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "OMPI_MCA_mpi_yield_when_idle",
)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in COUNTS + LIMITS:
        monkeypatch.delenv(name, raising=False)


def _become(*program, **variables):
    command = [sys.executable, "-m", "adasumrun.rank_threads", *program]
    return programs.run(command, LIMIT_SECONDS, **variables)


def _limits(**variables):
    done = _become("sh", "-c", "echo " + " ".join(f"${{{n}:--}}" for n in LIMITS), **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("name", COUNTS)
def test_ranks_of_a_host_divide_its_cores(name):
    cores = hosts.available_cores()
    each = str(max(1, cores // 2))
    crowded = "1" if cores < 2 else "-"
    assert _limits(**{name: "2"}) == ([each, str(max(2, int(each))), each, "true", crowded], "")
    assert _limits(**{name: str(cores + 1)}) == (["1", "2", "1", "true", "1"], "")
    assert _limits(**{name: "1"}) == (["-"] * len(LIMITS), "")


def test_what_the_user_set_is_kept():
    own = {"OMP_NUM_THREADS": "7", "TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    said, _ = _limits(OMPI_COMM_WORLD_LOCAL_SIZE="99", **own)
    assert said == ["1", "2", "7", "false", "1"]


def test_a_host_without_the_working_directory_is_named(tmp_path):
    here, missing = str(tmp_path), str(tmp_path / "none")
    variables = {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    assert _limits(**variables, OMPI_MCA_initial_wdir=here)[1] == ""
    said, error = _limits(**variables, OMPI_MCA_initial_wdir=missing)
    assert said == ["-"] * len(LIMITS)
    assert error.count("\n") == 1
    assert f"expected the working directory {missing} on " in error


def test_a_launcher_that_tells_nothing_is_named():
    said, error = _limits()
    assert said == ["-"] * len(LIMITS)
    assert error.count("\n") == 1
    assert "expected one of OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS" in error


def test_the_program_can_be_ended_by_a_broken_pipe():
    done = _become("sh", "-c", "kill -PIPE $$; echo lives", MPI_LOCALNRANKS="1")
    assert done.returncode == -signal.SIGPIPE, done.stdout


def test_missing_program_is_named():
    done = _become("no-such-program", MPI_LOCALNRANKS="1")
    assert done.returncode == 127
    assert done.stderr.count("\n") == 1
    assert "expected the program no-such-program on " in done.stderr
