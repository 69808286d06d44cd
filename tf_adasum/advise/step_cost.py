"""What a step takes on N ranks: computation, what the exchange costs a rank, and the reduction.

    step(N) = computation(n) + extra max(1, n / c) + exposed(N)        n: ranks on a host
    computation(n) = C + b (max(1 / w, n / c) - max(1 / w, m / c))
    exposed(N) = max(last(N), wire(N) + work(N) - hidden(N))
    hidden(N) = min(backward, wire(N) + idle work(N))

C was measured with m ranks on a host of c cores: b are the seconds of processors in it, w the cores
that a rank has threads for. extra is what the exchange costs a rank beside the reduction. wire(N)
is the time of the reduction if memory were free, work(N) the rest, last(N) the time of the bucket
that comes last, and idle how many cores a rank leaves idle, at most 1. docs/advise.md says where it
comes from.
"""

from __future__ import annotations

import dataclasses
import math

from tf_adasum.advise.calibration import scaled, with_network
from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster, Constants, Passes

_FREE = Passes(*[0.0] * len(dataclasses.fields(Passes)))
# To keep the old weights, to take the change and to put them back: each reads and writes all.
_CHANGE_PASSES = 3


@dataclasses.dataclass(frozen=True)
class Measured:
    """Of the ranks that are there.

    Attributes:
        ranks: how many.
        hosts: on how many hosts.
        ranks_per_host: on the host that has most.
        cores: of that host.
        replicas: of each rank.
        batch: examples of a rank's step.
        sizes: elements of each trainable variable.
        buckets: indices into `sizes`, in the order of their exchange.
        local_reduction: of the strategy.
        finds_changes: whether changes of the weights are exchanged that are found as differences.
        alone_seconds: of a step without exchange, all ranks at the same time.
        forward_seconds: of its forward pass; 0 if not known.
        cpu_seconds: of processors in a step of one rank.
        together_seconds: of a step with the exchange; None where there is none.
        reduction_seconds: of a reduction by itself; None for one rank.
        small_seconds: of a reduction of one number.
        long_seconds: of `calibration.LONG` numbers; None where there is one host.
        copy_seconds: of a copy of all trainable variables.
        input_seconds: of drawing one batch from the dataset.
    """

    ranks: int
    hosts: int
    ranks_per_host: int
    cores: int
    replicas: int
    batch: int
    sizes: list[int]
    buckets: list[list[int]]
    local_reduction: str
    finds_changes: bool
    alone_seconds: float
    forward_seconds: float
    cpu_seconds: float
    together_seconds: float | None
    reduction_seconds: float | None
    small_seconds: float
    long_seconds: float | None
    copy_seconds: float
    input_seconds: float

    @property
    def num_bytes(self) -> int:
        """Of all trainable variables."""
        return 4 * sum(self.sizes)


@dataclasses.dataclass(frozen=True)
class StepCost:
    """Predicted seconds of a step.

    Attributes:
        step: of all.
        computation: forward, backward, optimizer.
        reduction: of the reduction by itself.
        exposed: of the reduction, what computation does not hide.
    """

    step: float
    computation: float
    reduction: float
    exposed: float


class StepModel:
    """Predicts steps for hosts like those that were measured.

    Args:
        measured: what was.
        constants: of another machine, as a start; what was measured here scales them.
        ranks_per_host: of the hosts to predict for.
    """

    def __init__(self, measured: Measured, constants: Constants, ranks_per_host: int):
        together = measured.together_seconds or math.inf
        # A step without exchange takes no longer than with it: else the machine was disturbed.
        alone = min(measured.alone_seconds, together)
        self._measured = measured = dataclasses.replace(measured, alone_seconds=alone)
        self._ranks_per_host = ranks_per_host
        self.op_seconds = self._op_of(constants)
        self.scale = self._scale_of(constants)
        self.constants = scaled(constants, self.scale)
        if measured.hosts > 1:
            here = self._cluster(measured.ranks, measured.ranks_per_host)
            times = measured.small_seconds, measured.long_seconds
            self.constants = with_network(self.constants, here, *times)
        self.extra_seconds = 0.0
        self.extra_seconds = self._extra()

    def predict(self, ranks: int) -> StepCost:
        """Predicts for so many ranks.

        Args:
            ranks: at least 1.
        """
        return self._predict(ranks, self._cluster(ranks, self._ranks_per_host))

    def _predict(self, ranks: int, cluster: Cluster) -> StepCost:
        computation = self._computation(cluster.ranks_per_host)
        if ranks == 1:
            return StepCost(computation, computation, 0.0, 0.0)
        of_buckets = [self._reduction(bucket, cluster) for bucket in self._measured.buckets]
        reduction = sum(total for total, _ in of_buckets)
        wire = sum(waits for _, waits in of_buckets)
        hidden = min(self._backward(), wire + self._idle(cluster) * (reduction - wire))
        exposed = max(of_buckets[-1][0] if of_buckets else 0.0, reduction - hidden)
        extra = self.extra_seconds * self._turns(cluster.ranks_per_host)
        return StepCost(computation + extra + exposed, computation, reduction, exposed)

    def _op_of(self, constants: Constants) -> float:
        """Seconds of TensorFlow's op beside what the constants have of a short reduction."""
        measured = self._measured
        if measured.hosts > 1:
            return 0.0  # in the latency
        here = self._cluster(measured.ranks, measured.ranks_per_host)
        return max(0.0, measured.small_seconds - self._seconds([1], here, constants))

    def _scale_of(self, constants: Constants) -> float:
        """How many times longer than by the constants a reduction takes here, or a copy."""
        measured = self._measured
        if not measured.num_bytes:
            return 1.0
        if measured.reduction_seconds is None or measured.hosts > 1:
            return measured.copy_seconds / (1e-9 * constants.long.pack * measured.num_bytes)
        here = self._cluster(measured.ranks, measured.ranks_per_host)
        lists = [[measured.sizes[index] for index in bucket] for bucket in measured.buckets]
        expected = sum(self._seconds(sizes, here, constants) for sizes in lists)
        ops = len(lists) * self.op_seconds
        # Where the op is nearly all, the rest is too short to be measured.
        return max(measured.reduction_seconds - ops, 0.25 * expected) / expected

    def _extra(self) -> float:
        """What the exchange costs a rank beside the reduction: as measured, or for changes."""
        measured = self._measured
        if measured.together_seconds is None:
            return _CHANGE_PASSES * measured.copy_seconds * measured.finds_changes
        here = self._cluster(measured.ranks, measured.ranks_per_host)
        rest = measured.together_seconds - self._predict(measured.ranks, here).step
        return max(0.0, rest) / self._turns(measured.ranks_per_host)

    def _cluster(self, ranks: int, ranks_per_host: int) -> Cluster:
        per_host = min(ranks, ranks_per_host)
        return Cluster(math.ceil(ranks / per_host), per_host, self._measured.cores)

    def _reduction(self, bucket: list[int], cluster: Cluster) -> tuple[float, float]:
        """Seconds, and how many of them would be left if memory were free."""
        sizes = [self._measured.sizes[index] for index in bucket]
        free = dataclasses.replace(self.constants, hot=_FREE, cached=_FREE, long=_FREE)
        op = self.op_seconds * self._turns(cluster.ranks_per_host)
        op /= self._turns(self._measured.ranks_per_host)
        total, wire = (self._seconds(sizes, cluster, each) for each in (self.constants, free))
        return op + total, wire

    def _seconds(self, sizes: list[int], cluster: Cluster, constants: Constants) -> float:
        model = Model(cluster, constants)
        if self._measured.local_reduction == "adasum":
            return model.flat(sizes).seconds
        return model.hierarchical(sizes).seconds

    def _computation(self, ranks_on_host: int) -> float:
        measured = self._measured
        width = max(1, measured.cores // measured.ranks_per_host)

        def busy(ranks: int) -> float:
            return measured.cpu_seconds * max(1 / width, ranks / measured.cores)

        here, there = busy(measured.ranks_per_host), busy(ranks_on_host)
        if here >= measured.alone_seconds:
            return measured.alone_seconds * there / max(here, 1e-12)
        return measured.alone_seconds + there - here

    def _turns(self, ranks_on_host: int) -> float:
        return max(1.0, ranks_on_host / self._measured.cores)

    def _backward(self) -> float:
        """At most twice the forward pass: what a train_step does beside it hides nothing."""
        forward = self._measured.forward_seconds
        return max(0.0, min(self._measured.alone_seconds - forward, 2 * forward))

    def _idle(self, cluster: Cluster) -> float:
        """Of one core, what a rank's computation leaves to its communication thread."""
        busy = self._measured.cpu_seconds / max(self._measured.alone_seconds, 1e-9)
        return min(1.0, max(0.0, cluster.cores / cluster.ranks_per_host - busy))
