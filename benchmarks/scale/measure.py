"""Measures the constants of this machine, and times real allreduces to compare predictions with."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.hosts.namespaces import Hosts
from benchmarks.scale.cases import sizes_of
from tf_adasum.advise.machine import Cluster, Constants, Passes
from tf_adasum.advise.schedule import MOST_DIRECT

_LIMIT_SECONDS = 200
_ROOT = Path(__file__).resolve().parents[2]
_MEGABITS = 1000
_SMALL = "256"  # elements: a call, the negotiation and its rounds
_PASSES = {"hot": "524288", "cached": "64x262144", "long": "16777216"}
_PACKED_CHUNKS, _CHUNK_BYTES = 8, 256 << 10


def run(cluster: Cluster, asked: dict, real_time: bool = False) -> dict:
    """Starts benchmarks.scale.on_ranks on this machine, on namespaces where hosts are several.

    Args:
        cluster: so many hosts and ranks; needs root for several hosts.
        asked: see there.
        real_time: whether ranks keep their cores from other load.

    Returns:
        What rank 0 wrote.

    Raises:
        RuntimeError: if the ranks fail, which say themselves why.
    """
    program = [sys.executable, "-m", "benchmarks.scale.on_ranks"]
    launcher = [sys.executable, "-m", "adasumrun", f"--timeout={_LIMIT_SECONDS}"]
    launcher += ["-np", str(cluster.size)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found.json")
        program += [str(path), json.dumps({**asked, "real_time": real_time})]
        if cluster.hosts == 1:
            _start([*launcher, *program])
        else:
            with Hosts(Path(folder), cluster.hosts, f"{_MEGABITS}mbit") as network:
                places = ",".join(f"{host.name}:{cluster.ranks_per_host}" for host in network.hosts)
                # All hosts share the cores: ranks that wait in MPI yield, as those of one do.
                mpi = f"--prtemca plm_ssh_agent {network.agent} --mca mpi_yield_when_idle 1"
                there = ["-H", places, "--mpi-args", mpi]
                _start(network.hosts[0].command(*launcher, *there, *program))
        return json.loads(path.read_text())


def constants(machine: str, real_time: bool) -> Constants:
    """Measures all of them, on 1 and 2 ranks, on two and four a core, and on two hosts.

    Args:
        machine: its name, for the record.
        real_time: as for `run`.
    """
    cores = os.cpu_count() or 1
    small = {"cases": [_SMALL], "methods": ["sum"], "repetitions": 300}
    asked = {**small, "passes": list(_PASSES.values())}
    several = 2 * cores
    alone = run(Cluster(1, 1, cores), small, real_time)
    two = run(Cluster(1, 2, cores), asked, real_time)
    shared = run(Cluster(1, several, cores), asked, real_time)
    most = run(Cluster(1, MOST_DIRECT, cores), asked, real_time)
    hosts = run(Cluster(2, 1, cores, 2), {**small, "stream": True}, real_time)
    call = _median(alone)
    return Constants(
        machine=machine,
        when=f"{datetime.date.today()}, load {os.getloadavg()[1]:.1f}, real time: {real_time}",
        call_us=1e6 * call,
        round_us=1e6 * (_median(two) - call) / _rounds(2),
        shared_round_us=1e6 * (_median(shared) - call) / _rounds(several) / 2,
        shared_loss=_loss(shared["passes"][f"{_PASSES['long']} adasum"]),
        network_round_us=1e6 * (_median(hosts) - call) / _rounds(2),
        network_gbit_s=8e-9 * hosts["stream_bytes_per_second"],
        cache_bytes=_cache_bytes(),
        hot=_passes("hot", two, most),
        cached=_passes("cached", two, most),
        long=_passes("long", two, most),
    )


def _start(command: list[str]) -> None:
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
    # The model is of packed tensors.
    environment |= {"TF_ADASUM_ARENA": "0", "TF_ADASUM_CROSS_MEMORY": "0"}
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        raise RuntimeError("benchmarks.scale: the ranks failed; what they said stands above.")


def _cache_bytes() -> int:
    """Of the last cache of this machine; 32 MiB where Linux does not tell."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((1024 * int(path.read_text().strip()[:-1]) for path in sizes), default=32 << 20)


def _median(found: dict) -> float:
    return float(np.median(found["times"][_SMALL]["sum"]))


def _rounds(size: int) -> int:
    """Of a short vector: the negotiation's, and a swap on each level; a power of two."""
    return 2 * (size.bit_length() - 1)


def _loss(seconds: dict[str, float]) -> float:
    """Of an allreduce of two ranks a core."""
    passes = sum(value for name, value in seconds.items() if name != "total")
    return seconds["total"] / (2 * passes)


def _passes(kind: str, two: dict, most: dict) -> Passes:
    """From those of two ranks; what further vectors add to the products, from those of most."""
    case = _PASSES[kind]
    num_bytes = 4 * sum(sizes_of(case))
    half = num_bytes / 2
    adasum, added = two["passes"][f"{case} adasum"], two["passes"][f"{case} sum"]
    chunks = 4 * sizes_of(case)[0] / 2 / _CHUNK_BYTES
    packed = half * (2 - min(_PACKED_CHUNKS, chunks) / chunks)
    moments = adasum["moments"] / num_bytes
    of_most = most["passes"][f"{case} adasum"]["moments"] / num_bytes
    seconds = Passes(
        pack=adasum["pack"] / packed,
        moments=moments,
        more_moments=(of_most - moments) / (MOST_DIRECT - 2),
        add=added["combine"] / num_bytes,
        combine=adasum["combine"] / num_bytes,
        deliver=adasum["deliver"] / half,
    )
    return Passes(**{name: 1e9 * value for name, value in vars(seconds).items()})
