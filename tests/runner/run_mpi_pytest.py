"""Runs pytest on every rank of an MPI job, as the main program of a Bazel test.

Each rank writes its output and its results to a file of its own; here the output is shown and the
results are joined into the one report that Bazel reads.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.runner import crash_report, mpi_results, run_pytest

_ROOT = Path(__file__).parents[2]
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


def main(arguments: list[str]) -> int:
    """Starts the ranks, or runs pytest if this process is one of them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, help="number of ranks to start")
    parser.add_argument("--timeout", type=int, help="seconds after which the ranks are ended")
    parser.add_argument("--oldest_keras", action="store_true", help="run on the oldest Keras")
    parser.add_argument("--folder", type=Path, help="where the ranks write (internal)")
    options, rest = parser.parse_known_args(arguments)
    if options.folder:
        return _run_rank(options.folder, rest)
    if options.oldest_keras:
        sys.path.insert(0, str(_oldest_keras()))
    with tempfile.TemporaryDirectory(prefix="mpi_pytest_") as folder:
        return _run_world(options.ranks, options.timeout, Path(folder), rest)


def _oldest_keras() -> Path:
    """Where `make setup` has put it."""
    versions = runpy.run_path(str(_ROOT / "tf_adasum" / "versions.py"))
    folder = Path(sys.prefix) / "keras" / versions["TESTED_KERAS"][-1]
    if not (folder / "keras").is_dir():
        raise SystemExit(f"run_mpi_pytest: expected Keras in {folder}. Run make setup.")
    return folder


def _run_rank(folder: Path, rest: list[str]) -> int:
    rank = next(int(os.environ[name]) for name in _RANK_VARIABLES if name in os.environ)
    output = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["XML_OUTPUT_FILE"] = str(folder / f"rank{rank}.xml")
    return run_pytest.main(rest)


def _run_world(ranks: int, timeout: int, folder: Path, rest: list[str]) -> int:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    environment.pop("XML_OUTPUT_FILE", None)
    launcher = [sys.executable, "-m", "adasumrun", f"--timeout={timeout}"]
    command = [*launcher, "-np", str(ranks), sys.executable, __file__, f"--folder={folder}", *rest]
    code = subprocess.run(command, env=environment, check=False).returncode
    _show_logs(ranks, folder)
    complete = mpi_results.join(folder, ranks, os.environ.get("XML_OUTPUT_FILE"))
    if code == 0 and not complete:
        print(f"run_mpi_pytest: expected the results of {ranks} ranks. Received: fewer.")
        return 1
    return code


def _show_logs(ranks: int, folder: Path) -> None:
    crashes = []
    for rank in range(ranks):
        path = folder / f"rank{rank}.log"
        log = path.read_text(errors="replace") if path.exists() else "(the rank did not start)"
        print(f"----- rank {rank} of {ranks} -----")
        print(log)
        crashes += [f"rank {rank}: {line}" for line in crash_report.excerpt(log)]
    # Once more and last: the threads and modules that faulthandler lists are many.
    print("\n".join(crashes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
