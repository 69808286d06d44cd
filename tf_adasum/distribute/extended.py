"""MirroredExtended over several processes: replicas are numbered globally, variables agree."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.python.distribute import cross_device_ops as tf_cross_device_ops
from tensorflow.python.distribute import distribute_utils
from tensorflow.python.distribute import values as tf_values
from tensorflow.python.framework import tensor_util
from tensorflow.python.trackable import base as trackable
from typing_extensions import override

from tf_adasum.collectives import names
from tf_adasum.collectives.allgather import allgather
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.distribute.awaited_inputs import begun_behind, behind
from tf_adasum.distribute.cross_device_ops import AdasumCrossDeviceOps
from tf_adasum.distribute.exact_means import reduce_exactly
from tf_adasum.distribute.keras_2 import refuse_keras_2
from tf_adasum.distribute.sharded_input import ShardedInputExtended
from tf_adasum.distribute.silence import silent
from tf_adasum.distribute.xla import refuse_in_xla
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.core.idle_replicas import IdleReplicas
from tf_adasum.keras_hooks.strategy.only_replica import OnlyReplicaContext
from tf_adasum.keras_hooks.strategy.values_of_each import values_of_each

require_hooks(distribute_utils, "is_distributed_variable", "is_mirrored", "regroup")
require_hooks(distribute_utils, "select_replica")
require_hooks(tf_cross_device_ops, "reduce_non_distributed_value")
require_hooks(tf_values, "DistributedValues", "PerReplica", "SyncOnReadVariable")
require_hooks(tensor_util, "is_tf_type")
require_hooks(trackable, "CheckpointInitialValueCallable")


class AdasumExtended(HookedExtended, ShardedInputExtended):
    """Replicas in each of P processes.

    Args:
        container_strategy: the strategy this belongs to.
        devices: names of the local devices.
        communicator: the `Communicator` of the P processes.
        numbers: of all replicas; `devices` are as many as they say of this rank.
        cross_device_ops: through which its replicas meet.
    """

    def __init__(
        self,
        container_strategy: tf.distribute.Strategy,
        devices: Sequence[str],
        communicator: Communicator,
        numbers: ReplicaNumbers,
        cross_device_ops: AdasumCrossDeviceOps,
    ):
        self.communicator, self.numbers = communicator, numbers
        with silent(tf.get_logger()):
            super().__init__(container_strategy, devices=devices, cross_device_ops=cross_device_ops)
        self.idle = IdleReplicas(len(devices))

    # Replicas and their numbers.

    @property
    def num_local_replicas(self) -> int:
        """The number of replicas in this process."""
        return len(self._devices)

    @contextlib.contextmanager
    def among(self, communicator: Communicator) -> Iterator[None]:
        """Inside, the replicas are those of another communicator, for what is traced there."""
        own = self.communicator, self.numbers
        numbers = ReplicaNumbers.of_all(len(self._devices), communicator)
        self.communicator, self.numbers = communicator, numbers
        try:
            with self._cross_device_ops.among(communicator, numbers):
                yield
        finally:
            self.communicator, self.numbers = own

    @property
    def settings(self) -> dict[str, int | str]:
        """As `AdasumCrossDeviceOps.settings`."""
        return self._cross_device_ops.settings

    @property
    @override
    def _num_replicas_in_sync(self) -> int:
        return self.numbers.total

    @override
    def _in_multi_worker_mode(self) -> bool:
        # True makes the input pipeline keep all ranks stepping until the last one is out of data.
        return self.communicator.size > 1

    @property
    def _task_id(self) -> int:
        # KerasTuner reads it to save where each process has a folder of its own.
        return self.communicator.rank

    @override
    def _get_replica_id_in_sync_group(self, replica_id: int) -> int:
        return self.numbers.first_of(self.communicator.rank) + replica_id

    @override
    def _get_local_replica_id(self, replica_id_in_sync_group: int) -> int:
        return replica_id_in_sync_group - self.numbers.first_of(self.communicator.rank)

    @property
    @override
    def should_checkpoint(self) -> bool:
        return self.communicator.rank == 0

    @property
    @override
    def should_save_summary(self) -> bool:
        return self.communicator.rank == 0

    @override
    def _use_merge_call(self) -> bool:
        return True

    @override
    def _call_for_each_replica(self, fn, args, kwargs):
        if len(self._devices) > 1:
            with self.generator.lent(self._container_strategy()), behind(args, kwargs):
                results = super()._call_for_each_replica(begun_behind(fn), args, kwargs)
            return values_of_each(results, self)
        context = OnlyReplicaContext(
            self._container_strategy(), self._get_replica_id_in_sync_group(0), fn
        )
        with tf.device(self._devices[0]), behind(args, kwargs), context:
            result = fn(
                *distribute_utils.select_replica(0, args),
                **distribute_utils.select_replica(0, kwargs),
            )
        return values_of_each(distribute_utils.regroup((result,)), self)

    # Variables.

    @override
    def _get_variable_creator_initial_value(self, replica_id, device, primary_var, **kwargs):
        value = super()._get_variable_creator_initial_value(
            replica_id, device, primary_var, **kwargs
        )
        restored = isinstance(value, trackable.CheckpointInitialValueCallable)
        has_peers = self.communicator.size > 1 and not self.is_alone
        if replica_id > 0 or not has_peers or value is None or restored:
            return value

        def from_rank_0():
            initial = tf.convert_to_tensor(
                value() if callable(value) else value, dtype=kwargs.get("dtype")
            )
            if not initial.dtype.size:  # strings and handles: every rank keeps its own
                return initial
            name = names.of_initial_value(kwargs.get("name"))
            with tf.device("CPU:0"):
                agreed = broadcast(initial, 0, self.communicator, name=name)
            self.communicator.variable_numbers.draw()
            return agreed

        return from_rank_0

    @override
    def _create_variable(self, next_creator, **kwargs):
        variable = super()._create_variable(next_creator, **kwargs)
        self.communicator.variable_numbers.attach(variable)
        return variable

    # Reductions.

    def asking(self, **asked) -> contextlib.AbstractContextManager:
        """As `Asked.asking`."""
        return self._cross_device_ops.asking(**asked)

    @override
    def _make_collective_ops_with_fallbacks(self):
        return self._cross_device_ops

    @override
    def _get_cross_device_ops(self, value):
        # The base class sends int32 and values on a CPU to a local-only reduction.
        del value
        return self._cross_device_ops

    @override
    def _batch_reduce_to(self, reduce_op, value_destination_pairs, options):
        refuse_keras_2()
        return self._cross_device_ops.batch_reduce(
            reduce_op, value_destination_pairs, self._communication_options.merge(options)
        )

    @override
    def _gather_to_implementation(self, value, destinations, axis, options):
        is_plain = not isinstance(value, tf_values.DistributedValues)
        if is_plain and (len(self._devices) == 1 or self.numbers.are_unlike):
            value = tf_values.PerReplica([value])
        return super()._gather_to_implementation(value, destinations, axis, options)

    @override
    def _reduce_to(self, reduce_op, value, destinations, options):
        mean = reduce_op == tf.distribute.ReduceOp.MEAN
        if mean and self.is_building:
            return tf.nest.map_structure(lambda leaf: self._local_results(leaf)[0], value)
        if distribute_utils.is_mirrored(value):
            if mean:
                return value
            expected = "a per-replica value to add up"
            received = f"one that is the same on all replicas: {shown(value)}"
            raise ValueError(refusal(expected, received, "Take it as it is, or ask for the mean."))

        def reduce_leaf(leaf):
            if isinstance(leaf, tf_values.SyncOnReadVariable) and calls.in_turn():
                return _own_value(leaf, mean)
            if isinstance(leaf, tf.IndexedSlices) and self._crosses_ranks_alone(destinations):
                leaf = tf_values.PerReplica([leaf])
            if isinstance(leaf, tf_values.DistributedValues):
                return self._cross_device_ops.reduce(
                    reduce_op, leaf, destinations, self._communication_options.merge(options)
                )
            return self._reduce_plain(reduce_op, leaf, destinations)

        return tf.nest.map_structure(reduce_leaf, value)

    def _crosses_ranks_alone(self, destinations) -> bool:
        """Whether a variable's only local replica has peers on other ranks."""
        alone = self.communicator.size > 1 and len(self._devices) == 1
        return alone and distribute_utils.is_distributed_variable(destinations)

    def _reduce_plain(self, reduce_op, value, destinations):
        """A plain tensor is one value per process, such as the count of replicas with data."""
        reduction = reduce_op.value.lower()
        to_variable = distribute_utils.is_distributed_variable(destinations)
        if self.communicator.size == 1 or (
            to_variable and not self._may_differ_between_ranks(reduction, value)
        ):
            return tf_cross_device_ops.reduce_non_distributed_value(
                reduce_op, value, destinations, self._num_replicas_in_sync
            )
        if to_variable:
            name = names.of_assignment(reduction, destinations)
        else:
            name = self.plain_name or f"{reduction} of a value per process"
        refuse_in_xla()

        def exchange(values, reduction):
            leaf = [each.values[0] for each in values]
            return allreduce_replicas([leaf], reduction, self.communicator, name=name)

        of_process = [tf_values.PerReplica([value])]
        with tf.device("CPU:0"):
            return reduce_exactly(of_process, reduction, self.communicator.size, exchange)[0]

    def _may_differ_between_ranks(self, reduction: str, value) -> bool:
        """Whether what replicas assign to a variable must be reduced over the ranks.

        A literal is the program's, and the same everywhere. A sum over several local replicas of
        one value is refused, as TensorFlow does.
        """
        if not tensor_util.is_tf_type(value):
            return False
        return reduction == "mean" or len(self._devices) == 1

    @override
    def _broadcast_to(self, tensor, destinations):
        """Copies what the first replica assigns to a variable: rank 0's, on all ranks."""
        if (
            self.communicator.size > 1
            and tensor_util.is_tf_type(tensor)
            and distribute_utils.is_distributed_variable(destinations)
            and not self.first_replicas_agree.on
        ):
            name = names.of_assignment("first replica's value", destinations)
            with tf.device("CPU:0"):
                tensor = self._of_rank_0(tensor, name)
        return super()._broadcast_to(tensor, destinations)

    def _of_rank_0(self, tensor, name: str):
        if not isinstance(tensor, tf.IndexedSlices):
            return broadcast(tensor, 0, self.communicator, name=name)
        # What is scattered: ranks may have unlike numbers of rows, and all but rank 0 send none.
        parts = [tensor.values, tensor.indices]
        parts = parts if self.communicator.rank == 0 else [part[:0] for part in parts]
        values, indices = allgather(parts, self.communicator, name)
        return tf.IndexedSlices(values, indices, tensor.dense_shape)


def _own_value(variable: tf_values.SyncOnReadVariable, mean: bool) -> tf.Tensor:
    """What a callback reads of a metric: this rank's, as another may not read it at all."""
    total = tf.add_n([copy.read_value() for copy in variable.values])
    return total / len(variable.values) if mean else total
