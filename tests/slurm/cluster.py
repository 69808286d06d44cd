"""A Slurm cluster of one node on this machine: Debian's munged, slurmctld and slurmd, as root."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import time
from pathlib import Path

LIMIT_SECONDS = 60
_CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
KillWait=60
OverTimeLimit=0
SchedulerParameters=batch_sched_delay=0,sched_interval=2
# More processors than the machine may have: ranks share them.
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """Its daemons run from `with` to the end of it, whatever happens inside.

    Args:
        folder: where they keep all their files; a new one.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._daemons: list[subprocess.Popen] = []
        # Debian's daemons are in a folder that Bazel's PATH has not.
        path = f"{os.environ['PATH']}:/usr/sbin"
        configuration = str(folder / "slurm.conf")
        self._environment = {**os.environ, "PATH": path, "SLURM_CONF": configuration}

    def __enter__(self) -> Cluster:
        folder = self._folder
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = dict(zip(("controller_port", "node_port"), _free_ports(2)))
        text = _CONFIGURATION.format(folder=folder, host=_host(), **ports)
        (folder / "slurm.conf").write_text(text)
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
        try:
            socket_ = f"--socket={folder}/munge.socket"
            self._start("munged", "--foreground", "--force", socket_, *files)
            self._start("slurmctld", "-D", "-f", folder / "slurm.conf")
            self._start("slurmd", "-D", "-f", folder / "slurm.conf", "-N", _host())
            self._await(lambda: "idle" in self.run("sinfo", "--noheader"), "an idle node")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("scancel", "--full", "--signal=KILL", "--user=root")
        self._stop()

    def run(self, *command: str | Path) -> str:
        """Returns what one of Slurm's commands writes.

        Raises:
            subprocess.CalledProcessError: it failed.
            subprocess.TimeoutExpired: after LIMIT_SECONDS.
        """
        return subprocess.run(
            command,
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        ).stdout

    def field(self, job: str, name: str) -> str:
        """Returns what `scontrol show job` says of a job: JobState, Restarts, ExitCode, ..."""
        words = self.run("scontrol", "show", "job", job).split()
        return next(word.partition("=")[2] for word in words if word.startswith(name + "="))

    def wait_for(self, job: str, state: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        """Returns when the job is in a state, such as RUNNING.

        Raises:
            AssertionError: after `limit_seconds`.
        """
        what = f"job {job} {state}"
        self._await(lambda: self.field(job, "JobState") == state, what, limit_seconds)

    def _start(self, name: str, *arguments: str | Path) -> None:
        said = (self._folder / f"{name}.said").open("w")
        with said:
            self._daemons.append(
                subprocess.Popen(
                    [name, *map(str, arguments)],
                    env=self._environment,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                )
            )

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _await(self, condition, what: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        deadline = time.monotonic() + limit_seconds
        while True:
            with contextlib.suppress(subprocess.CalledProcessError):
                if condition():
                    return
            assert time.monotonic() < deadline, f"expected {what} within {limit_seconds} s"
            time.sleep(0.2)


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
