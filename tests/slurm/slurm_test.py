"""adasumrun inside sbatch, on a real Slurm of one node: what ends a job lets it go on later."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import programs
from tests.slurm import train
from tests.slurm.cluster import Cluster

LIMIT_SECONDS = 150
NUM_BATCHES = train.ROWS // train.BATCH * train.EPOCHS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory):
    job = Job(cluster, tmp_path_factory.mktemp("undisturbed"))
    job.finish()
    return job.weights()


class Job:
    """A training in a folder of its own; its script is that of docs/clusters.md."""

    def __init__(self, cluster, folder: Path):
        self._cluster = cluster
        self.folder = folder
        path = os.pathsep.join(filter(None, sys.path))
        words = [*programs.ADASUMRUN, train.__file__, *map(str, self._files())]
        script = f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(path)}\nexec {shlex.join(words)}\n"
        (folder / "job.sh").write_text(script)
        self.number = ""

    def _files(self):
        return [self.folder / name for name in ("backup", "notes", "result.npz")]

    def submit(self, *options: str) -> None:
        """Queues it, again if it was ended; its output comes behind the last one's."""
        words = ["sbatch", "--parsable", "--nodes=1", "--ntasks=2", "--requeue"]
        words += ["--open-mode=append", f"--output={self.folder}/log", *options]
        self.number = self._cluster.run(*words, self.folder / "job.sh").strip()

    def batches(self) -> list[int]:
        """The batches that were trained, in their order, over all starts."""
        notes = self._files()[1]
        return [int(line) for line in notes.read_text().split()] if notes.exists() else []

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def wait_for_batch(self, number: int) -> None:
        """Returns when as many batches were trained."""
        what = f"batch {number} of\n{self.log()}"
        self._cluster._await(lambda: len(self.batches()) >= number, what, LIMIT_SECONDS)

    def wait_for(self, state: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._cluster.wait_for(self.number, state, limit_seconds)

    def field(self, name: str) -> str:
        return self._cluster.field(self.number, name)

    def finish(self) -> None:
        """Submits it and waits for its end."""
        self.submit()
        self.wait_for("COMPLETED")

    def weights(self) -> list[np.ndarray]:
        """At the end, of as many ranks as the job has tasks."""
        with np.load(self._files()[2]) as result:
            assert result["size"] == 2
            return [result[name] for name in result.files if name != "size"]

    def check_whole(self, undisturbed) -> None:
        """Every batch was trained once, and the weights are those of a training without an end."""
        assert self.batches() == list(range(NUM_BATCHES))
        for mine, its in zip(self.weights(), undisturbed, strict=True):
            np.testing.assert_array_equal(mine, its)


def test_scancel_lets_a_job_back_up_and_another_one_goes_on(cluster, undisturbed, tmp_path):
    job = Job(cluster, tmp_path)
    job.submit()
    job.wait_for_batch(20)
    cluster.run("scancel", job.number)
    job.wait_for("CANCELLED")
    assert job.field("ExitCode") == "143:0"
    assert "SIGTERM" in job.log()
    seen = len(job.batches())
    assert 20 <= seen < NUM_BATCHES
    job.finish()
    assert f"after {seen % 30} of its batches" in job.log()
    job.check_whole(undisturbed)


def test_a_job_that_is_requeued_goes_on(cluster, undisturbed, tmp_path):
    job = Job(cluster, tmp_path)
    job.submit()
    job.wait_for_batch(20)
    cluster.run("scontrol", "requeue", job.number)
    job.wait_for("PENDING")
    # Slurm lets a job rest for two minutes that was requeued.
    cluster.run("scontrol", "update", f"JobId={job.number}", "StartTime=now")
    job.wait_for("COMPLETED")
    assert job.field("Restarts") == "1"
    job.check_whole(undisturbed)


def test_a_signal_before_the_time_limit_is_enough(cluster, undisturbed, tmp_path):
    job = Job(cluster, tmp_path)
    # Slurm sends the signal to the script up to a minute early: 60 to 120 s after its start, and
    # the job trains from some 20 s on, for two minutes.
    job.submit("--time=3", "--signal=B:TERM@60", "--export=ALL,BATCH_SECONDS=1")
    job.wait_for("FAILED", 2 * LIMIT_SECONDS)
    assert job.field("ExitCode") == "143:0"
    assert "asked the ranks to back up and end" in job.log()
    job.finish()
    job.check_whole(undisturbed)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("none", "srun has started 2 tasks of this program without MPI: each trains alone."),
        ("pmi2", "Expected 2 ranks, as the launcher of this process says. Received: 1, since "),
    ],
)
def test_tasks_of_srun_that_are_no_ranks_are_told(cluster, kind, said):
    """Debian's `--mpi=pmix` lacks a file of its own (libpmix.so)."""
    size = "import tf_adasum as adasum; adasum.size()"
    path = f"--export=ALL,PYTHONPATH={os.pathsep.join(filter(None, sys.path))}"
    task = f"{shlex.join([sys.executable, '-c', size])} 2>&1 || true"
    assert said in cluster.run("srun", f"--mpi={kind}", "--ntasks=2", path, "sh", "-c", task)
