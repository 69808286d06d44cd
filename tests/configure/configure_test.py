"""configure.py finds what is there, and says in one line what is missing."""

import importlib.metadata
import os
import runpy
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIGURE = ROOT / "configure.py"


def _configure(*arguments, path=None, folder=None):
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [sys.executable, str(CONFIGURE), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=environment,
        check=False,
    )


def _program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _environment(folder, packages):
    """Makes a virtual environment without pip whose metadata lists `packages`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    site = next(Path(folder, "lib").glob("python*/site-packages"))
    for name, version in packages.items():
        module = site / name.replace("-cpu", "")
        module.mkdir()
        (module / "__init__.py").touch()
        about = site / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    return str(Path(folder, "bin", "python"))


def _refused(done, *expected):
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for text in expected:
        assert text in done.stderr


def test_writes_settings_and_prints_them(tmp_path):
    output = tmp_path / "settings"
    done = _configure(f"--output={output}", f"--python={sys.executable}")
    assert done.returncode == 0, done.stderr
    written = output.read_text()
    assert f'build "--repo_env=ADASUM_PYTHON={sys.executable}"' in written
    tensorflow = importlib.metadata.version("keras")
    for text in ("Python ", "TensorFlow ", "MPI ", "CUDA ", str(output), tensorflow):
        assert text in done.stdout
    assert list(tmp_path.iterdir()) == [output]


def test_help_needs_nothing():
    done = _configure("--help")
    assert done.returncode == 0
    assert "--mpi" in done.stdout


def test_python_that_is_not_there(tmp_path):
    done = _configure(f"--python={tmp_path}/python9", f"--output={tmp_path}/settings")
    _refused(done, "Received: ", "python9", "--python=")


def test_python_too_old(tmp_path):
    answer = '{"version": [3, 9, 18], "packages": {}}'
    old = _program(tmp_path / "python", f"echo '{answer}'")
    done = _configure(f"--python={old}", f"--output={tmp_path}/settings")
    _refused(done, "expected Python 3.10 to 3.13", "Received: 3.9.18", "--python=")


def test_no_tensorflow(tmp_path):
    python = _environment(tmp_path / "venv", {})
    done = _configure(f"--python={python}", f"--output={tmp_path}/settings")
    _refused(done, "expected TensorFlow 2.16 or newer", "Received: none", "pip install -r")


@pytest.mark.parametrize("package", ["tensorflow", "tensorflow-cpu"])
def test_tensorflow_without_keras_3(tmp_path, package):
    python = _environment(tmp_path / "venv", {package: "2.15.1"})
    done = _configure(f"--python={python}", f"--output={tmp_path}/settings")
    _refused(done, "expected TensorFlow 2.16 or newer", "Received: 2.15.1", "pip install -r")
    assert not (tmp_path / "settings").exists()


@pytest.mark.parametrize("version, tested", [("2.16.2", True), ("2.99.0", False)])
def test_tensorflow_that_was_not_tested_is_taken_with_a_line(tmp_path, version, tested):
    python = _environment(tmp_path / "venv", {"tensorflow": version, "pybind11": "3.1.0"})
    mpi = _other_mpi(tmp_path / "mpi", "echo mpirun of another MPI")
    done = _configure(f"--python={python}", f"--mpi={mpi}", f"--output={tmp_path}/settings")
    assert done.returncode == 0, done.stderr
    assert f"ADASUM_TENSORFLOW_VERSION={version}" in (tmp_path / "settings").read_text()
    assert ("not tested; those that are: 2.21" in done.stdout) == (not tested)


def test_requirements_pin_the_first_version_that_is_tested():
    versions = runpy.run_path(str(ROOT / "tf_adasum" / "versions.py"))
    pins = (ROOT / "requirements.txt").read_text()
    assert f"\ntensorflow-cpu=={versions['TESTED_TENSORFLOW'][0]}\n" in pins
    assert f"\nkeras=={versions['TESTED_KERAS'][0]};" in pins


def test_no_mpi(tmp_path):
    python = _environment(tmp_path / "venv", {"tensorflow": "2.21.0", "pybind11": "3.1.0"})
    done = _configure(f"--python={python}", f"--output={tmp_path}/settings", path=str(tmp_path))
    _refused(done, "expected an MPI", "Received: no mpicc", "--mpi=")


def test_mpicc_that_does_not_run(tmp_path):
    broken = _program(tmp_path / "mpicc", "exit 3")
    done = _configure(f"--mpi={broken}", f"--output={tmp_path}/settings")
    _refused(done, "expected an MPI compiler wrapper", str(broken), "--mpi=")


def test_mpi_without_headers(tmp_path):
    bare = _program(tmp_path / "mpicc", f"echo gcc -I{tmp_path} -L{tmp_path} -lmpi")
    done = _configure(f"--mpi={bare}", f"--output={tmp_path}/settings")
    _refused(done, "expected mpi.h", str(tmp_path))


def test_mpi_without_library(tmp_path):
    (tmp_path / "mpi.h").touch()
    bare = _program(tmp_path / "mpicc", f"echo gcc -I{tmp_path} -L{tmp_path} -lmpi")
    done = _configure(f"--mpi={bare}", f"--output={tmp_path}/settings")
    _refused(done, "expected a shared libmpi", "--mpi=")


def test_mpi_that_nothing_can_look_into(tmp_path):
    mpicc = _other_mpi(tmp_path / "mpi", "echo mpirun of another MPI")
    (tmp_path / "mpi" / "libmpi.so").write_bytes(b"\x7fELF")
    words = (f"--python={sys.executable}", f"--mpi={mpicc}", f"--output={tmp_path}/settings")
    done = _configure(*words, path=str(tmp_path))
    _refused(done, f"expected objdump to read {tmp_path}/mpi/libmpi.so", "binutils", "--mpi=")


def test_mpi_without_mpirun(tmp_path):
    (tmp_path / "mpi.h").touch()
    (tmp_path / "libmpi.so").write_text("INPUT(libmpi.so.40)")
    bare = _program(tmp_path / "mpicc", f"echo gcc -I{tmp_path} -L{tmp_path} -lmpi")
    done = _configure(f"--mpi={bare}", f"--output={tmp_path}/settings")
    _refused(done, "expected mpirun beside mpicc", f"{tmp_path}/mpirun")


def test_another_mpi_is_taken_from_its_mpicc(tmp_path):
    folder = tmp_path / "mpi"
    mpicc = _other_mpi(folder, "echo mpirun of another MPI")
    done = _configure(f"--mpi={mpicc}", f"--output={tmp_path}/settings")
    assert done.returncode == 0, done.stderr
    assert "mpirun of another MPI, this machine's own" in done.stdout
    written = (tmp_path / "settings").read_text()
    assert f'"--repo_env=ADASUM_MPI_LIBRARY={folder}/libmpi.so.40"' in written
    assert f'"--repo_env=ADASUM_MPIRUN={folder}/mpirun"' in written
    assert '"--repo_env=ADASUM_MPI_PACKAGE="' in written


def _other_mpi(folder, mpirun):
    """Makes an MPI of which configure.py looks at everything; its mpirun is a script."""
    folder.mkdir()
    (folder / "mpi.h").touch()
    (folder / "libmpi.so").write_text("INPUT(libmpi.so.40)")
    _program(folder / "mpirun", mpirun)
    return _program(folder / "mpicc", f"echo gcc -I{folder} -L{folder} -lmpi")


@pytest.mark.parametrize("fault", ["exit 3", "exec /no/such/mpirun", "true"])
def test_mpirun_that_does_not_run(tmp_path, fault):
    mpicc = _other_mpi(tmp_path / "mpi", fault)
    done = _configure(f"--mpi={mpicc}", f"--output={tmp_path}/settings")
    _refused(done, "expected an mpirun that knows --version", f"{tmp_path}/mpi/mpirun", "--mpi=")
    assert not (tmp_path / "settings").exists()


def test_relative_paths_are_written_absolute(tmp_path):
    _other_mpi(tmp_path / "mpi", "echo mpirun of another MPI")
    _program(tmp_path / "interpreter", f'exec {sys.executable} "$@"')
    words = ("--python=./interpreter", "--mpi=mpi/mpicc", f"--output={tmp_path}/settings")
    done = _configure(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "settings").read_text()
    assert f'"--repo_env=ADASUM_PYTHON={tmp_path}/interpreter"' in written
    assert f'"--repo_env=ADASUM_MPICC={tmp_path}/mpi/mpicc"' in written
    assert f'"--repo_env=ADASUM_MPIRUN={tmp_path}/mpi/mpirun"' in written


def _toolkit(folder, release):
    """Makes a CUDA toolkit of which configure.py looks at everything."""
    for part in ("bin", "include", "lib64"):
        (folder / part).mkdir(parents=True)
    (folder / "include" / "cuda_runtime.h").touch()
    (folder / "lib64" / "libcudart_static.a").touch()
    _program(folder / "bin" / "nvcc", f"echo release {release}, of a toolkit")
    return folder


def test_cuda_toolkit_is_taken_from_its_folder(tmp_path):
    home, output = _toolkit(tmp_path / "cuda", "12.3"), tmp_path / "settings"
    done = _configure(f"--cuda={home}", "--cuda-archs=100,90", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert f"CUDA        12.3 ({home}), compute capabilities 90,100" in done.stdout
    assert f'"--repo_env=ADASUM_CUDA_HOME={home}"' in output.read_text()
    assert '"--repo_env=ADASUM_CUDA_ARCHS=90,100"' in output.read_text()


def test_cuda_may_be_left_out(tmp_path):
    output = tmp_path / "settings"
    done = _configure("--cuda=no", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert "CUDA        built without" in done.stdout
    assert '"--repo_env=ADASUM_CUDA_HOME="' in output.read_text()


def test_cuda_asked_for_must_be_there(tmp_path):
    done = _configure(f"--cuda={tmp_path}", f"--output={tmp_path}/settings")
    _refused(done, "expected a CUDA toolkit", f"{tmp_path}/bin/nvcc", "--cuda=no")


def test_cuda_asked_for_must_be_new_enough(tmp_path):
    home = _toolkit(tmp_path / "cuda", "12.2")
    done = _configure(f"--cuda={home}", f"--output={tmp_path}/settings")
    _refused(done, "expected CUDA 12.3", "Received: 12.2", "--cuda=no")


def test_cuda_asked_for_must_be_complete(tmp_path):
    home = _toolkit(tmp_path / "cuda", "13.0")
    (home / "lib64" / "libcudart_static.a").unlink()
    done = _configure(f"--cuda={home}", f"--output={tmp_path}/settings")
    _refused(done, "expected lib64/libcudart_static.a", str(home), "--cuda=no")


def test_cuda_asked_for_must_say_where_it_is(tmp_path):
    """An nvcc that runs once."""
    home = _toolkit(tmp_path / "cuda", "13.0")
    _program(home / "bin" / "nvcc", 'echo release 13.0, of a toolkit; rm "$0"')
    done = _configure(f"--cuda={home}", f"--output={tmp_path}/settings")
    _refused(done, "expected an nvcc that runs", f"{home}/bin/nvcc", "--cuda=no")


def test_an_old_cuda_that_nobody_asked_for_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(_toolkit(tmp_path / "cuda", "11.8")))
    done = _configure(f"--output={tmp_path}/settings")
    assert done.returncode == 0, done.stderr
    assert "CUDA        built without: expected CUDA 12.3" in done.stdout
    assert "Received: 11.8" in done.stdout


def test_cuda_archs_must_be_known_to_the_kernels(tmp_path):
    done = _configure("--cuda-archs=70", f"--output={tmp_path}/settings")
    _refused(done, "expected compute capabilities", "Received: 70", "--cuda-archs")
