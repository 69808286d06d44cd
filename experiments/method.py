"""How the workers of an experiment train."""

from __future__ import annotations

from typing import NamedTuple

import tf_adasum as adasum
from experiments.exchanging_optimizers import ExchangingOptimizer
from experiments.worker_optimizers import MakeOptimizer


class Method(NamedTuple):
    """How workers train.

    Args:
        reduction: "adasum", "mean" or "sum"; with one worker there is nothing to reduce.
        make_optimizer: returns a Keras optimizer.
        mode: "delta" or "gradient".
        elementwise: whether the optimizer looks at single elements only.
        batch: examples of each worker and step.
        hosts: the workers are dealt to so many hosts in a row; each host reduces its own first.
        local_reduction: how: "adasum", "mean" or "sum".
        compression: how what is reduced travels; None: as it is.
        keeps_lost: whether what encoding loses is added to what travels next.
        steps_per_sync: steps of each worker by itself between two reductions, in delta mode.
        exchanging: what makes the steps of an optimizer that exchanges something of its own; `mode`
            is "gradient" then.
    """

    reduction: str
    make_optimizer: MakeOptimizer
    mode: str = "delta"
    elementwise: bool = True
    batch: int = 32
    hosts: int = 1
    local_reduction: str = "adasum"
    compression: adasum.compression.Compression | None = None
    keeps_lost: bool = True
    steps_per_sync: int = 1
    exchanging: type[ExchangingOptimizer] | None = None
