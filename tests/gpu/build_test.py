"""What tests/gpu/run.sh builds is whole: a list of sources that misses one shows here."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("all_kernels", "exchange_test", "processes_test", "replicas_test", "times")
LIMIT_SECONDS = 450


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory):
    checkout = tmp_path_factory.mktemp("checkout")
    for folder in ("cc", "tests/cc", "tests/gpu"):
        left_out = shutil.ignore_patterns("build", "__pycache__")
        shutil.copytree(ROOT / folder, checkout / folder, ignore=left_out)
    done = subprocess.run(
        [checkout / "tests/gpu/build.sh"],
        env={**os.environ, "ADASUM_ARCH": "sm_90"},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout / "tests/gpu/build"


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_built(built, program):
    assert os.access(built / program, os.X_OK)


def test_the_library_exports_what_the_tests_call(built):
    library = ctypes.CDLL(str(built / "libadasum_kernels.so"))
    for name in ("moments", "combine", "add", "logical_and", "divide", "copy"):
        assert hasattr(library, f"adasum_{name}")


@pytest.mark.parametrize("program", PROGRAMS[1:])
def test_all_reductions_are_linked(built, program):
    symbols = subprocess.run(
        ["nm", "-C", built / program], capture_output=True, text=True, check=True
    )
    sources = [path.read_text() for path in (ROOT / "cc/reductions").glob("*.cc")]
    num_registered = sum("RegisterReduction kRegistered" in source for source in sources)
    assert num_registered > 1
    assert symbols.stdout.count("kRegistered") == num_registered
