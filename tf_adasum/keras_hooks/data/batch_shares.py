"""Training steps of ranks with unlike shares of a batch: gradients count by the rows they are of.

Keras divides by the number of rows of the replica's own batch, and by N.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, TFEpochIterator

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.replicas import local_replica, replica_context_with_peers
from tf_adasum.keras_hooks.idle.empty_batches import num_rows
from tf_adasum.keras_hooks.steps.losses import scaled

require_hooks(TensorFlowTrainer, "_make_function", "make_train_function")
require_hooks(TFEpochIterator, "_get_iterator")
require_reads(TFEpochIterator, "__init__", "_distribute_strategy")
require_hooks(TFOptimizer, "_all_reduce_sum_gradients")


class _Making(threading.local):
    """Whether this thread makes a train function: groups may train in threads of one process."""

    is_train_function = False


_making = _Making()


def install() -> None:
    """Lets training steps count rows, plain optimizers weigh, and epochs begin with new shares."""
    _count_rows()
    _weigh_plain_gradients()
    _renew_shares()


def _count_rows() -> None:
    make_train = TensorFlowTrainer.make_train_function
    make = TensorFlowTrainer._make_function

    @functools.wraps(make_train)
    def make_train_function(self, *args, **kwargs):
        with _of_training():
            return make_train(self, *args, **kwargs)

    @functools.wraps(make)
    def make_function(self, step_function):
        if not _making.is_train_function:
            return make(self, step_function)

        def step(data):
            context = replica_context_with_peers()
            share = None if context is None else context.strategy.extended.batch_share
            rows = None if share is None else _counted(data)
            if rows is None:
                return step_function(data)
            with share.step(local_replica(context), rows):
                return step_function(data)

        return make(self, step)

    TensorFlowTrainer.make_train_function = make_train_function
    TensorFlowTrainer._make_function = make_function


@contextlib.contextmanager
def _of_training() -> Iterator[None]:
    _making.is_train_function = True
    try:
        yield
    finally:
        _making.is_train_function = False


def _counted(data: Any) -> int | tf.Tensor | None:
    """The rows of a batch; one where all parts are scalars, which no share is taken of."""
    leaves = [leaf for leaf in tf.nest.flatten(data) if leaf is not None]
    shapes = [tf.TensorShape(getattr(leaf, "shape", None)) for leaf in leaves]
    return 1 if leaves and all(shape.rank == 0 for shape in shapes) else num_rows(data)


def _weigh_plain_gradients() -> None:
    """Of optimizers that are not wrapped; others weigh what they reduce to variables."""
    original = TFOptimizer._all_reduce_sum_gradients

    @functools.wraps(original)
    def sum_weighed(self, grads_and_vars):
        context = replica_context_with_peers()
        share = None if context is None else context.strategy.extended.batch_share
        if share is None:
            return original(self, grads_and_vars)
        share.rounds.check(self, self.gradient_accumulation_steps or 1)
        pairs = list(grads_and_vars)
        grads = [grad for grad, _ in pairs if grad is not None]
        share.computed(grads)
        weighed = iter(scaled(grads, share.mean_weight(local_replica(context))))
        pairs = [(None if grad is None else next(weighed), variable) for grad, variable in pairs]
        return original(self, pairs)

    TFOptimizer._all_reduce_sum_gradients = sum_weighed


def _renew_shares() -> None:
    original = TFEpochIterator._get_iterator

    @functools.wraps(original)
    def get_iterator(self):
        call = calls.current()
        share = getattr(self._distribute_strategy.extended, "batch_share", None)
        if share is not None and call is not None and call.name == "fit":
            share.renew()
        return original(self)

    TFEpochIterator._get_iterator = get_iterator
