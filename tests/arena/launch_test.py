"""adasumrun preloads the arena into ranks, and only there, unless it is switched off or missing."""

import os
import sys
from pathlib import Path

import pytest

from adasumrun import command_line, mpirun, preload
from tests import programs

LIMIT_SECONDS = 100
# Says where a block lies that is taken as TensorFlow takes it, and how large that file is.
PROGRAM = """
import ctypes, os, re
block = ctypes.c_void_p()
assert ctypes.CDLL(None).posix_memalign(ctypes.byref(block), 64, 1 << 20) == 0
ctypes.memset(block.value, 5, 1 << 20)
for line in open("/proc/self/maps"):
    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
    if begin <= block.value < end:
        print("arena" if "tf_adasum_arena" in line else "heap", end - begin if "tf_" in line else 0)
print("environment", os.environ.get("LD_PRELOAD"))
ctypes.CDLL(None).free(block)
"""


def _run(*program, prefix=(), arguments=(), **variables):
    command = [*prefix, *programs.ADASUMRUN, "-np", "1", *arguments]
    return programs.run([*command, *program], LIMIT_SECONDS, **variables)


def _block(**variables):
    """Where it lies, and how large that is."""
    done = _run("python", "-c", PROGRAM, **variables)
    assert done.returncode == 0, done.stderr
    assert "environment None" in done.stdout
    where, size = done.stdout.split()[:2]
    return where, int(size)


def test_ranks_have_it():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    where, size = _block()
    assert where == "arena" and 0 < size <= memory // 2
    # A shell in between hands it on.
    done = _run("sh", "-c", f"python -c '{PROGRAM}'")
    assert done.stdout.startswith("arena") and "environment None" in done.stdout


def test_hosts_that_mpirun_chooses_have_it():
    done = _run("python", "-c", PROGRAM, arguments=["-H", "localhost"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("arena")


def test_the_setting_says_how_large_it_is():
    assert _block(TF_ADASUM_ARENA="64M") == ("arena", 64 << 20)


@pytest.mark.parametrize("variable", ["TF_ADASUM_ARENA", "TF_ADASUM_SHARED_MEMORY"])
def test_it_can_be_switched_off(variable):
    assert _block(**{variable: "0"}) == ("heap", 0)


def test_a_wrong_setting_is_refused_in_one_line():
    assert _block(TF_ADASUM_ARENA="plenty") == ("heap", 0)
    program = "import tf_adasum as adasum\ntry: adasum.world()\nexcept ValueError as e: print(e)"
    done = _run("python", "-c", program, TF_ADASUM_ARENA="plenty")
    assert done.stdout.count("\n") == 1
    assert "Expected TF_ADASUM_ARENA to be 0, 1 or a number of bytes" in done.stdout
    assert "Received: plenty" in done.stdout


def test_limits_of_the_process_are_kept():
    # In blocks of 1024 bytes.
    limited = 'ulimit -f 65536; exec "$@"'
    done = _run("python", "-c", PROGRAM, prefix=["bash", "-c", limited, "bash"])
    assert done.stdout.split()[:2] == ["arena", str(64 << 20)], done.stderr
    small = 'ulimit -f 1024; exec "$@"'
    done = _run("python", "-c", PROGRAM, prefix=["bash", "-c", small, "bash"])
    assert done.stdout.split()[:2] == ["heap", "0"], done.stderr


@pytest.mark.parametrize("family", ["openmpi", "hydra"])
def test_it_is_set_by_the_last_program_before_the_rank(monkeypatch, family):
    """Not for mpirun, its daemons and the shell that is a rank's first program with Hydra."""
    monkeypatch.setattr(mpirun, "family_of", lambda path: family)
    options = command_line.parse(["-np", "2", "sh", "-c", "true"])
    command = mpirun.command_line("/opt/mpirun", options, {})
    assert command[-5:] == ["env", f"LD_PRELOAD={preload.LIBRARY}", "sh", "-c", "true"]
    off = mpirun.command_line("/opt/mpirun", options, {"TF_ADASUM_ARENA": "0"})
    assert off == [*command[:-5], "sh", "-c", "true"]


def test_what_the_user_preloads_is_kept():
    own = preload.variables({"LD_PRELOAD": "/opt/a.so /opt/b.so"})["LD_PRELOAD"]
    assert own == f"{preload.LIBRARY}:/opt/a.so /opt/b.so"
    system = next(Path("/lib/x86_64-linux-gnu").glob("libutil.so*"))
    program = "import os; print(os.environ['LD_PRELOAD'])"
    done = _run("python", "-c", program, LD_PRELOAD=str(system))
    assert done.stdout.strip() == str(system)


@pytest.mark.parametrize("folder", ["my checkout", "c:checkout"])
def test_a_path_that_the_loader_would_cut_is_not_preloaded(monkeypatch, tmp_path, folder):
    library = tmp_path / folder / "_arena.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setattr(preload, "LIBRARY", str(library))
    assert preload.variables({}) == {}
    assert f"a space or a colon can't be preloaded: {library}" in preload.obstacle({})


def test_verbose_says_why_tensors_lie_outside_of_shared_memory():
    said = [
        _run("true", arguments=["--verbose"], **variables).stderr
        for variables in ({}, {"TF_ADASUM_ARENA": "0"})
    ]
    assert "outside of shared memory" not in said[0]
    assert "outside of shared memory: TF_ADASUM_ARENA is 0\n" in said[1]


def test_a_host_without_it_runs_without_it(monkeypatch):
    monkeypatch.setattr(preload, "LIBRARY", "/nowhere/_arena.so")
    assert preload.variables({}) == {} and preload.command({}) == []
    # Named by a launcher all the same: the loader says so, and goes on.
    done = programs.run([sys.executable, "-c", PROGRAM], 60, LD_PRELOAD="/nowhere/_arena.so")
    assert done.returncode == 0 and done.stdout.startswith("heap")
    assert done.stderr.count("\n") == 1 and "cannot be preloaded" in done.stderr


def test_paths_that_the_loader_would_split_are_not_named(monkeypatch, tmp_path):
    for name in ("a b", "a:b"):
        library = tmp_path / name
        library.touch()
        monkeypatch.setattr(preload, "LIBRARY", str(library))
        assert preload.variables({}) == {}
