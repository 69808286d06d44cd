"""What a model of time is made of: measured constants, and the hosts that ranks are on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from adasumrun import hosts

MEASURED = Path(__file__).with_name("measured.json")


@dataclasses.dataclass(frozen=True)
class Passes:
    """Nanoseconds of a core for each byte that a pass touches; ranks work at the same time.

    Attributes:
        pack: copying what peers combine.
        moments: inner products of two vectors, of bytes of both.
        more_moments: what each further vector adds to that.
        add: the sum, of bytes of all vectors.
        combine: the weighted sum, of bytes of all vectors.
        deliver: fetching a part of the result.
    """

    pack: float
    moments: float
    more_moments: float
    add: float
    combine: float
    deliver: float

    def mixed(self, other: Passes, weight: float) -> Passes:
        """So much of `other`, the rest of this."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Passes(*((1 - weight) * mine + weight * theirs for mine, theirs in pairs))

    def products(self, operands: int) -> float:
        """Of the inner products of each two of so many vectors."""
        return self.moments + self.more_moments * (operands - 2)


@dataclasses.dataclass(frozen=True)
class Constants:
    """Measured on one machine.

    Attributes:
        machine: which.
        when: the day, the machine's load, and whether ranks kept their cores from it.
        call_us: a call that has no peers.
        round_us: a message each way between ranks of a host that have a core each.
        shared_round_us: the same where K ranks share a core, for each of the K.
        shared_loss: where ranks share cores, by how much their passes take longer than the sum of
            them all: some core waits while ranks of another one work.
        network_round_us: a message each way between hosts.
        network_gbit_s: what a host sends and receives by MPI over TCP at the same time.
        cache_bytes: the last cache of the machine, which its ranks share.
        hot: passes over vectors that all fit there.
        cached: passes over longer lists in blocks of 1 MiB, which stay in a core's cache between.
        long: passes over longer tensors, which do not.
    """

    machine: str
    when: str
    call_us: float
    round_us: float
    shared_round_us: float
    shared_loss: float
    network_round_us: float
    network_gbit_s: float
    cache_bytes: int
    hot: Passes
    cached: Passes
    long: Passes


def load(path: Path = MEASURED) -> Constants:
    """Reads what `save` wrote."""
    fields = json.loads(Path(path).read_text())
    passes = {name: Passes(**fields[name]) for name in ("hot", "cached", "long")}
    return Constants(**{**fields, **passes})


def save(constants: Constants, path: Path) -> None:
    """Writes a JSON of a line per constant."""
    Path(path).write_text(json.dumps(dataclasses.asdict(constants), indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Hosts of equally many ranks, numbered host by host, each with one link to a switch.

    Attributes:
        hosts: how many.
        ranks_per_host: on each.
        cores: that each host has.
        hosts_per_machine: of how many hosts these are the same cores, as those of namespaces are.
    """

    hosts: int
    ranks_per_host: int
    cores: int
    hosts_per_machine: int = 1

    @property
    def size(self) -> int:
        """All ranks."""
        return self.hosts * self.ranks_per_host

    @property
    def ranks_per_core(self) -> float:
        """How many ranks take turns on a core, at least 1."""
        return max(1.0, self.ranks_per_host * self.hosts_per_machine / self.cores)

    @property
    def shares_memory(self) -> bool:
        """Whether some ranks read each other's memory; if so, blocks are short."""
        return self.ranks_per_host > 1

    @property
    def width(self) -> int:
        """Cores that a rank counts on: as many times longer are its blocks and chunks."""
        return min(max(self.cores // self.ranks_per_host, 1), 8)


def cores_here() -> int:
    """Cores that this process may use."""
    return hosts.available_cores()
