"""Data for several processes: every rank reads its part of each global batch."""

from __future__ import annotations

import random

import tensorflow as tf
from tensorflow.python.distribute import (
    distribute_utils,
    input_lib,
    input_util,
)
from tensorflow.python.eager import context as eager_context
from typing_extensions import override

from tf_adasum.collectives.allreduce import allreduce
from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.batch_share import BatchShare
from tf_adasum.distribute.caches import check_cache_files
from tf_adasum.distribute.data_order import check_order, in_one_order
from tf_adasum.distribute.dealing import (
    deals_files,
    dealt_by_rows,
    dealt_by_rows_if_need_be,
    dealt_by_rows_in_order,
    is_dealt,
)
from tf_adasum.distribute.keras_2 import refuse_keras_2
from tf_adasum.distribute.mirrored_extended import MirroredExtended
from tf_adasum.distribute.none_parts import without_none
from tf_adasum.distribute.own_memory import in_own_memory
from tf_adasum.distribute.scalar_parts import holds_rows, holds_scalars, parts_of_batches
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(eager_context, "global_seed")
require_hooks(distribute_utils, "regroup")

_PER_REPLICA = tf.distribute.InputReplicationMode.PER_REPLICA
# A plain iterator, from which `host_iterators` takes a batch for each replica.
_ON_HOST = tf.distribute.InputOptions(
    experimental_replication_mode=_PER_REPLICA, experimental_fetch_to_device=False
)


class ShardedInputExtended(MirroredExtended):
    """The data methods of an extended: rank and number of ranks go into the input context.

    A subclass sets `communicator` and `numbers` before it calls the constructor, and has a flag
    `rows_in_order` and a `batch_share`.
    """

    numbers: ReplicaNumbers
    batch_share: BatchShare | None

    def _make_input_context(self) -> tf.distribute.InputContext:
        return tf.distribute.InputContext(
            num_input_pipelines=self.communicator.size,
            input_pipeline_id=self.communicator.rank,
            num_replicas_in_sync=self._num_replicas_in_sync,
        )

    def _contexts_of_replicas(self) -> list[tf.distribute.InputContext]:
        """Of pipelines of which each local replica has one of its own."""
        number = self._num_replicas_in_sync
        ids = [self._get_replica_id_in_sync_group(r) for r in range(len(self._devices))]
        return [tf.distribute.InputContext(number, each, number) for each in ids]

    def _fetching(self, options: tf.distribute.InputOptions | None):
        """The options, or those of a plain iterator where all replicas compute on CPUs.

        The iterator over several devices would copy from the host to itself, and costs 0.05 s and
        0.05 s for each device wherever one is made: twice in each epoch, and in each evaluation.
        """
        if options or {tf.DeviceSpec.from_string(d).device_type for d in self._devices} != {"CPU"}:
            return options
        return _ON_HOST

    def _workers(self, options: tf.distribute.InputOptions | None) -> input_lib.InputWorkers:
        own = self._input_workers_devices
        try:
            return self._input_workers_with_options(None if options is _ON_HOST else options)
        finally:
            # TensorFlow keeps those of InputReplicationMode.PER_REPLICA for all later datasets.
            self._input_workers_devices = own

    def _takes_shares(self) -> bool:
        # In their order, rows can be dealt equally, unless a rank has more replicas than another.
        has_choice = self.rows_in_order.on and not self.numbers.are_unlike
        return self.batch_share is not None and not has_choice

    @override
    def _experimental_distribute_dataset(self, dataset, options):
        refuse_keras_2()
        _refuse_per_replica(options)
        options = self._fetching(options)
        call = calls.current()
        if call is not None:
            dataset = without_none(dataset, call.name)
        is_eager = tf.executing_eagerly()
        if self._num_replicas_in_sync > 1 and is_eager:
            dataset = in_own_memory(dataset)
        has_peers = self.communicator.size > 1 and is_eager
        if has_peers:
            check_cache_files(dataset, self.communicator)
        if self._num_replicas_in_sync > 1 and holds_scalars(dataset):
            return self._dealt_with_scalars(dataset, options, has_peers)
        if self._takes_shares() and is_dealt(dataset):
            return self._dealt_in_shares(dataset, options, has_peers)
        if self.rows_in_order.on:
            deal = dealt_by_rows_in_order if has_peers else dealt_by_rows
            dataset = deal(dataset)
        if has_peers:
            dataset = in_one_order(dealt_by_rows_if_need_be(dataset, self.communicator))
            check_order(dataset, self.communicator)
            self.files_are_dealt = deals_files(dataset)
        # A pipeline whose context says so belongs to a rank with N / P replicas; without one, whose
        # policy is OFF, a replica has a N-th of a batch all the same.
        is_one_of_many = self.communicator.size > 1 and not self.numbers.are_unlike
        return input_util.get_distributed_dataset(
            dataset,
            self._workers(options),
            self._container_strategy(),
            num_replicas_in_sync=self._num_replicas_in_sync,
            input_context=self._make_input_context() if is_one_of_many else None,
            options=options,
        )

    def _dealt_in_shares(self, dataset, options, has_peers: bool):
        """To this rank its share of each batch, by rows."""
        dataset = in_one_order(dealt_by_rows(dataset))
        if has_peers:
            check_order(dataset, self.communicator)
        return input_util.get_distributed_dataset(
            self.batch_share.own_rows(dataset),
            self._workers(options),
            self._container_strategy(),
            num_replicas_in_sync=len(self._devices),  # to which TensorFlow deals these rows
            options=options,
        )

    def _dealt_with_scalars(self, dataset, options, has_peers: bool):
        """To each local replica its rows of each batch, and scalars as they are."""
        num_local, number = len(self._devices), self._num_replicas_in_sync
        # Part l * P + p of a batch is replica l's of rank p, as where TensorFlow deals.
        own = range(self.communicator.rank, number, self.communicator.size)
        dataset = in_one_order(dealt_by_rows(dataset))
        if has_peers:
            check_order(dataset, self.communicator)
        if not holds_rows(dataset.element_spec):
            number, own = 1, [0] * num_local
        elif not is_dealt(dataset):
            own = range(number)
        elif self._takes_shares():
            dataset = self.batch_share.own_rows(dataset)
            number, own = num_local, range(num_local)
        return input_util.get_distributed_dataset(
            parts_of_batches(dataset, number, own),
            self._workers(options),
            self._container_strategy(),
            options=options,
        )

    @override
    def _distribute_datasets_from_function(self, dataset_fn, options):
        contexts = [self._make_input_context()]
        if options and options.experimental_replication_mode == _PER_REPLICA:
            contexts = self._contexts_of_replicas()
        options = self._fetching(options)
        return input_util.get_distributed_datasets_from_function(
            dataset_fn,
            self._workers(options),
            contexts,
            self._container_strategy(),
            options,
        )

    @override
    def _experimental_distribute_values_from_function(self, value_fn):
        number = self._num_replicas_in_sync
        ids = [self._get_replica_id_in_sync_group(r) for r in range(len(self._devices))]
        values = [value_fn(tf.distribute.experimental.ValueContext(i, number)) for i in ids]
        return distribute_utils.regroup(values, always_wrap=True)


def _refuse_per_replica(options: tf.distribute.InputOptions | None) -> None:
    if options and options.experimental_replication_mode == _PER_REPLICA:
        # As TensorFlow's own strategies refuse it.
        expected = "a function that makes datasets, for InputReplicationMode.PER_REPLICA"
        advice = "Call distribute_datasets_from_function, or leave the mode out."
        raise NotImplementedError(refusal(expected, "a dataset", advice))


def agree_on_seed(communicator) -> bool:
    """Gives all ranks rank 0's TensorFlow seed, or a fresh one drawn there if it has none.

    The input pipeline shards after the shuffle: ranks that shuffle differently would train on
    some examples twice and never see others.

    Returns:
        Whether any rank had another seed of its own.
    """
    own = eager_context.global_seed()
    proposal = random.SystemRandom().randrange(2**31) if own is None else own
    with tf.device("CPU:0"):
        agreed = broadcast(tf.constant(proposal, tf.int64), 0, communicator, name="TensorFlow seed")
        is_other = own is not None and own != int(agreed)
        others = allreduce(
            tf.constant(int(is_other)), "sum", communicator, name="unlike TensorFlow seeds"
        )
    if own is None or is_other:
        tf.random.set_seed(int(agreed))
    return int(others) > 0
