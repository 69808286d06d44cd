"""Times the reduction of a model's variables over the ranks that are there, and a copy of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_adasum.advise.steps import number_within, slowest
from tf_adasum.collectives.allreduce import allreduce
from tf_adasum.collectives.communicator import Communicator


def time_reduction(
    shapes: list[tuple],
    buckets: list[list[int]],
    local_reduction: str,
    communicator: Communicator,
    budget_seconds: float,
) -> float:
    """Seconds of one Adasum of each bucket in turn; all ranks call it.

    Args:
        shapes: of the float32 variables.
        buckets: indices into `shapes`.
        local_reduction: as for `allreduce`.
        communicator: the ranks.
        budget_seconds: about how long it may take.

    Returns:
        The median over repetitions of the slowest rank's time.
    """
    random = np.random.default_rng(communicator.rank)
    with tf.device("CPU:0"):
        tensors = [tf.constant(random.standard_normal(shape, np.float32)) for shape in shapes]
    name = "advise: reduction"

    def reduce_all() -> None:
        with tf.device("CPU:0"):
            for bucket in buckets:
                of_bucket = [tensors[index] for index in bucket]
                allreduce(of_bucket, "adasum", communicator, name, local_reduction)

    return _median(reduce_all, communicator, budget_seconds)


def time_copy(num_bytes: int, communicator: Communicator, budget_seconds: float) -> float:
    """Seconds of copying so many bytes, on all ranks at the same time."""
    source, target = np.ones(num_bytes, np.uint8), np.ones(num_bytes, np.uint8)
    return _median(lambda: np.copyto(target, source), communicator, budget_seconds)


def _median(act: Callable[[], None], communicator: Communicator, budget_seconds: float) -> float:
    act()
    number = number_within(budget_seconds, slowest(_seconds(act), communicator))
    return float(np.median([slowest(_seconds(act), communicator) for _ in range(number)]))


def _seconds(act: Callable[[], None]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin
