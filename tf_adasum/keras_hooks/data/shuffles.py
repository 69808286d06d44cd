"""What Keras shuffles for `fit`, arrays and `PyDataset`s: all ranks in rank 0's order.

Every rank takes its share of the same global batches. If ranks shuffled by seeds of their own, as
after `set_random_seed(1 + rank)`, some examples would be in no share and others in two.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import threading
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.trainers.data_adapters import py_dataset_adapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from tensorflow.python.eager import context as eager_context

from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.hooked_extended import peers_of

require_hooks(TFEpochIterator, "__init__")
require_hooks(py_dataset_adapter, "random")
require_hooks(py_dataset_adapter.OrderedEnqueuer, "_run")
require_hooks(PyDatasetAdapter, "_finite_generator")
require_reads(PyDatasetAdapter, "_finite_generator", "random")
require_reads(py_dataset_adapter.OrderedEnqueuer, "_run", "random")
require_reads(eager_context.Context, "_set_global_seed", "_seed")
require_hooks(eager_context, "context", "global_seed")


class _Shuffling(threading.local):
    """Stands in for the module `random` where Keras orders the batches of a `PyDataset`.

    Attributes:
        generator: by what this thread orders them.
    """

    generator: Any = random

    def __getattr__(self, name):
        return getattr(self.generator, name)

    @contextlib.contextmanager
    def by(self, generator: Any) -> Iterator[None]:
        """Inside, this thread orders them by a generator."""
        before, self.generator = self.generator, generator
        try:
            yield
        finally:
            self.generator = before


_shuffling = _Shuffling()


def install() -> None:
    """Lets `TFEpochIterator` and `py_dataset_adapter` shuffle by rank 0's seeds."""
    py_dataset_adapter.random = _shuffling
    _keep_generators()
    original = TFEpochIterator.__init__

    @functools.wraps(original)
    def make_in_order(self, distribute_strategy=None, *args, **kwargs):
        peers = peers_of(distribute_strategy)
        if not kwargs.get("shuffle"):
            original(self, distribute_strategy, *args, **kwargs)
            return
        with contextlib.ExitStack() as stack:
            if peers is not None:
                # Keras itself draws from `random` for these only.
                in_python = isinstance(kwargs.get("x"), keras.utils.PyDataset)
                seed, order = _of_rank_0(peers, in_python)
                stack.enter_context(_global_seed(seed))
                if in_python:
                    stack.enter_context(_shuffling.by(random.Random(order)))
            original(self, distribute_strategy, *args, **kwargs)

    TFEpochIterator.__init__ = make_in_order


def _keep_generators() -> None:
    """Lets every adapter order by the generator that was in force when it was made.

    A callback of one rank may train a model of its own meanwhile.
    """
    make, batches_of = PyDatasetAdapter.__init__, PyDatasetAdapter._finite_generator
    run = py_dataset_adapter.OrderedEnqueuer._run

    @functools.wraps(make)
    def make_and_keep(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self._adasum_generator = _shuffling.generator
        if self.enqueuer is not None:
            self.enqueuer._adasum_generator = _shuffling.generator

    @functools.wraps(batches_of)
    def in_order(self):
        batches = batches_of(self)
        with _shuffling.by(_generator_of(self)):
            first = list(itertools.islice(batches, 1))  # it shuffles before the first
        yield from first
        yield from batches

    @functools.wraps(run)
    def run_in_order(self):  # on a thread of its own
        with _shuffling.by(_generator_of(self)):
            run(self)

    PyDatasetAdapter.__init__ = make_and_keep
    PyDatasetAdapter._finite_generator = in_order
    py_dataset_adapter.OrderedEnqueuer._run = run_in_order


def _generator_of(adapter: Any) -> Any:
    return getattr(adapter, "_adasum_generator", random)  # it may be older than the hooks


def _of_rank_0(communicator: Communicator, in_python: bool) -> tuple[int | None, int]:
    """Rank 0's TensorFlow seed, and, if `in_python`, a seed that is drawn there by `random`."""
    own = eager_context.global_seed()
    order = random.getrandbits(62) if in_python else 0
    proposal = [own is not None, 0 if own is None else int(own), order]
    with tf.device("CPU:0"):
        agreed = broadcast(
            tf.constant(proposal, tf.int64), 0, communicator, name="seeds of what Keras shuffles"
        )
    has_seed, seed, order = (int(value) for value in agreed)
    return seed if has_seed else None, order


@contextlib.contextmanager
def _global_seed(seed: int | None):
    """Inside, functions are traced with this seed; the numbers drawn eagerly stay as they are."""
    context = eager_context.context()
    own = context._seed
    context._seed = seed
    try:
        yield
    finally:
        context._seed = own
