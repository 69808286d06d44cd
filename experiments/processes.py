"""Runs that are made by several processes at once, each with its share of the cores."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

import tensorflow as tf
from absl import logging

from experiments import local
from experiments.experiment import Experiment, Run


def start_tensorflow(num_processes: int) -> None:
    """Makes the devices of the experiments; before anything else starts TensorFlow's runtime.

    Args:
        num_processes: that share the cores.
    """
    num_threads = max(1, len(os.sched_getaffinity(0)) // num_processes)
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    local.make_devices()
    logging.set_verbosity(logging.WARNING)  # tensorflow_datasets tells every step
    tf.get_logger().setLevel("ERROR")  # each number of workers traces its own step, on purpose


class Processes:
    """Makes runs, as `carry_out` asks for them; a context, at whose end the processes end.

    Args:
        number: of processes. Each keeps what it has traced: memory grows by a few GB for each.
    """

    def __init__(self, number: int):
        self._number = number
        self._executor = concurrent.futures.ProcessPoolExecutor(
            number,
            mp_context=multiprocessing.get_context("spawn"),  # TensorFlow does not bear a fork
            initializer=start_tensorflow,
            initargs=(number,),
        )

    def __call__(
        self, experiment: Experiment, settings: Iterable[Run], deadline: float
    ) -> Iterator[tuple[Run, Run]]:
        """Yields settings and what was found, as runs end; none begins after the deadline."""
        ahead, under_way = iter(settings), {}
        while True:
            while len(under_way) < self._number and time.monotonic() <= deadline:
                setting = next(ahead, None)
                if setting is None:
                    break
                under_way[self._executor.submit(experiment.run, setting)] = setting
            if not under_way:
                return
            ended, _ = concurrent.futures.wait(
                under_way, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in ended:
                yield under_way.pop(future), future.result()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._executor.shutdown(cancel_futures=True)
