"""Data for several processes: every rank reads its part of each global batch."""

from __future__ import annotations

import random

import tensorflow as tf
from tensorflow.python.distribute import distribute_utils, input_util, mirrored_strategy
from tensorflow.python.eager import context as eager_context
from typing_extensions import override

from tf_adasum.allreduce import broadcast
from tf_adasum.hooks import require_hooks

require_hooks(
    mirrored_strategy.MirroredExtended,
    "_distribute_datasets_from_function",
    "_experimental_distribute_dataset",
    "_experimental_distribute_values_from_function",
    "_input_workers_with_options",
)
require_hooks(eager_context, "global_seed")
require_hooks(distribute_utils, "regroup")


class ShardedInputExtended(mirrored_strategy.MirroredExtended):
    """The data methods of an extended: rank and number of ranks go into the input context.

    A subclass sets `communicator` before it calls the constructor.
    """

    def _make_input_context(self) -> tf.distribute.InputContext:
        return tf.distribute.InputContext(
            num_input_pipelines=self.communicator.size,
            input_pipeline_id=self.communicator.rank,
            num_replicas_in_sync=self._num_replicas_in_sync,
        )

    @override
    def _experimental_distribute_dataset(self, dataset, options):
        if self.communicator.size == 1:
            return super()._experimental_distribute_dataset(dataset, options)
        mode = tf.distribute.InputReplicationMode.PER_REPLICA
        if options and options.experimental_replication_mode == mode:
            raise NotImplementedError(
                "InputReplicationMode.PER_REPLICA needs distribute_datasets_from_function. "
                "Received: a dataset."
            )
        return input_util.get_distributed_dataset(
            dataset,
            self._input_workers_with_options(options),
            self._container_strategy(),
            num_replicas_in_sync=self._num_replicas_in_sync,
            input_context=self._make_input_context(),
            options=options,
        )

    @override
    def _distribute_datasets_from_function(self, dataset_fn, options):
        return input_util.get_distributed_datasets_from_function(
            dataset_fn,
            self._input_workers_with_options(options),
            [self._make_input_context()],
            self._container_strategy(),
            options,
        )

    @override
    def _experimental_distribute_values_from_function(self, value_fn):
        number = self._num_replicas_in_sync
        ids = [self._get_replica_id_in_sync_group(r) for r in range(len(self._devices))]
        values = [value_fn(tf.distribute.experimental.ValueContext(i, number)) for i in ids]
        return distribute_utils.regroup(values, always_wrap=True)


def agree_on_seed(communicator) -> None:
    """Gives ranks without a TensorFlow seed rank 0's, or a fresh one drawn there.

    The input pipeline shards after the shuffle: ranks that shuffle differently would train on
    some examples twice and never see others.
    """
    own = eager_context.global_seed()
    proposal = random.SystemRandom().randrange(2**31) if own is None else own
    with tf.device("CPU:0"):
        agreed = broadcast(tf.constant(proposal, tf.int64), 0, communicator, name="TensorFlow seed")
    if own is None:
        tf.random.set_seed(int(agreed))
