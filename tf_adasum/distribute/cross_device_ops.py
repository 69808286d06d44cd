"""The one place where replicas meet: every sum, mean and per-variable reduction of a strategy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import tensorflow as tf
from tensorflow.python.distribute import cross_device_ops as tf_cross_device_ops
from tensorflow.python.distribute import distribute_utils
from tensorflow.python.distribute import values as tf_values
from typing_extensions import override

from tf_adasum.collectives import names
from tf_adasum.collectives.allgather import gather_rows
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas, measured_allreduce_replicas
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.compressed_allreduce import encoded_allreduce_replicas
from tf_adasum.collectives.compression import Compression
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.collectives.sparse_allreduce import REDUCTIONS, sparse_allreduce_replicas
from tf_adasum.distribute.asked import Asked
from tf_adasum.distribute.axes import swap_axes
from tf_adasum.distribute.batch_share import BatchShare
from tf_adasum.distribute.bucketing import make_buckets
from tf_adasum.distribute.exact_means import reduce_exactly
from tf_adasum.distribute.xla import refuse_in_xla
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(
    tf_cross_device_ops.CrossDeviceOps,
    "_num_between_graph_workers",
    "reduce_implementation",
    "batch_reduce_implementation",
    "broadcast_implementation",
    "_gather_implementation",
)
require_hooks(distribute_utils, "is_distributed_variable")
require_hooks(tf_values, "PerReplica")


class AdasumCrossDeviceOps(tf_cross_device_ops.CrossDeviceOps):
    """Reduces over all replicas of all processes through `allreduce_replicas`.

    SUM and MEAN mean exactly that. Only a batched SUM whose destinations are variables,
    which is what a wrapped optimizer asks for, takes the reduction of each variable's rule.
    `tf.IndexedSlices` that are reduced to a variable stay such: the rows that any replica has are
    exchanged and come back, unless the variable's reduction needs all rows.

    Args:
        communicator: the `Communicator` whose processes take part.
        numbers: of their replicas.
        reduction_of: maps a variable to `(path, reduction name)`.
        bucket_bytes: variables of a step travel in buckets of about this many bytes each.
        local_reduction: what reduces the replicas of a host before their Adasum across hosts.

    Attributes:
        batch_share: what the leaves of replicas count; None: all alike.
    """

    def __init__(
        self,
        communicator: Communicator,
        numbers: ReplicaNumbers,
        reduction_of: Callable[[tf.Variable], tuple[str, str]],
        bucket_bytes: int,
        local_reduction: str,
    ):
        super().__init__()
        self._communicator, self._numbers = communicator, numbers
        self._reduction_of = reduction_of
        self._bucket_bytes = bucket_bytes
        self._local_reduction = local_reduction
        self._asked = Asked()
        self.batch_share: BatchShare | None = None

    def asking(self, **asked) -> contextlib.AbstractContextManager:
        """As `Asked.asking`."""
        return self._asked.asking(**asked)

    @contextlib.contextmanager
    def among(self, communicator: Communicator, numbers: ReplicaNumbers) -> Iterator[None]:
        """Inside, the processes of another communicator take part."""
        own = self._communicator, self._numbers
        self._communicator, self._numbers = communicator, numbers
        try:
            yield
        finally:
            self._communicator, self._numbers = own

    @property
    def settings(self) -> dict[str, int | str]:
        """What it was told, and must be told alike on all ranks."""
        return {"local_reduction": self._local_reduction, "bucket_bytes": self._bucket_bytes}

    @property
    @override
    def _num_between_graph_workers(self) -> int:
        # With 1 the base class would return a single local value without any exchange.
        return self._communicator.size

    @override
    def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
        del options
        per_replica_value = self._of_each(per_replica_value)
        if _scatters(per_replica_value, destinations):
            rows = self._reduce_rows(per_replica_value, _reduction(reduce_op), destinations)
            return self.broadcast(rows, destinations)
        name = None
        if distribute_utils.is_distributed_variable(per_replica_value):
            name = names.of_metric(_reduction(reduce_op), per_replica_value)
        (reduced,) = self._exactly([per_replica_value], _reduction(reduce_op), name)
        return self.broadcast(reduced, destinations)

    def _reduce_rows(self, slices, reduction: str, variable) -> tf.IndexedSlices:
        """Reduces what replicas scatter to a variable; the rows are those that any of them has."""
        name = names.of_rows(reduction, variable)
        (rows,) = self._allreduce_rows([slices], [variable], reduction, name)
        return rows

    @override
    def batch_reduce_implementation(self, reduce_op, value_destination_pairs, options):
        del options
        value_destination_pairs = [(self._of_each(v), to) for v, to in value_destination_pairs]
        buckets = self._buckets(reduce_op, value_destination_pairs)
        if self.batch_share is not None and any(name is not None for *_, name in buckets):
            self.batch_share.computed([value.values for value, _ in value_destination_pairs])
        reduced = [None] * len(value_destination_pairs)
        paths: list[str] = []
        norms: list[tf.Tensor] = []
        for reduction, indices, name in buckets:
            values, destinations = zip(*[value_destination_pairs[index] for index in indices])
            if name is None:
                results = self._exactly(values, reduction)
            else:
                measured = paths, norms
                results = self._reduce_bucket(values, destinations, reduction, name, measured)
            for index, result in zip(indices, results):
                reduced[index] = self.broadcast(result, value_destination_pairs[index][1])
        if norms:
            with tf.device("CPU:0"):
                self._asked.measure(paths, norms[0] if len(norms) == 1 else tf.concat(norms, 0))
        return reduced

    def _reduce_bucket(self, values, variables, reduction: str, name: str, measured) -> list:
        """Reduces to variables; `measured` are the paths and the norms so far, of all buckets."""
        values = self._weighed(values, reduction, name)
        codec = self._asked.compression_of(variables[0])
        if codec is not None:
            return self._allreduce_encoded(values, variables, reduction, name, codec)
        if self._stays_sparse(values[0], reduction):
            return self._allreduce_rows(values, variables, reduction, name)
        if self._asked.measure is None or reduction != "adasum":
            return self._allreduce(values, reduction, name)
        paths, norms = measured
        paths += [self._reduction_of(variable)[0] for variable in variables]
        return self._allreduce(values, reduction, name, norms)

    def _exactly(self, per_replica_values, reduction: str, name: str | None = None) -> list:
        exchange = functools.partial(self._allreduce, name=name)
        return reduce_exactly(per_replica_values, reduction, self._numbers.total, exchange)

    def _weighed(self, per_replica_values, reduction: str, name: str) -> list:
        """The values, times what each replica's count where ranks have unlike batches."""
        if self.batch_share is None:
            return per_replica_values
        leaves = list(zip(*[value.values for value in per_replica_values]))
        weighed = self.batch_share.weighed(leaves, reduction, name)
        return [tf_values.PerReplica(list(values)) for values in zip(*weighed)]

    def _stays_sparse(self, value, reduction: str) -> bool:
        """Whether the rows of a gradient travel, and not all of the variable's."""
        if not _has_rows(value) or reduction not in REDUCTIONS:
            return False
        # What is measured travels whole, and so does what is reduced inside every host first.
        is_plain = self._local_reduction == "adasum" and self._asked.measure is None
        return reduction != "adasum" or is_plain

    @override
    def _gather_implementation(self, per_replica_value, destinations, axis, options):
        del options
        values = [tf.convert_to_tensor(value) for value in per_replica_value.values]
        if any(value.shape.rank == 0 for value in values):
            expected = "values of at least one dimension, along which to gather"
            advice = "Gather tf.reshape(value, [1]) along axis 0."
            raise ValueError(refusal(expected, "scalars", advice))
        ranks = {value.shape.rank for value in values} - {None}
        if any(not -rank <= axis < rank for rank in ranks):
            expected = f"values that have a dimension {axis}"
            received = f"values of shape {values[0].shape}"
            raise ValueError(refusal(expected, received, "Gather along one that they have."))
        with tf.device("CPU:0"):
            # Ranks gather rows; replicas of a rank follow each other, as its leaves do.
            own = tf.concat([swap_axes(value, axis) for value in values], axis=0)
            (rows,) = gather_rows([own], self._communicator, "gather", ordered=True)
            gathered = swap_axes(rows, axis)
        return self.broadcast(gathered, destinations)

    def _buckets(self, reduce_op, pairs) -> list[tuple[str, list[int], str | None]]:
        """(reduction, indices into pairs, stable name) of each exchange, in the order to send."""
        if reduce_op != tf.distribute.ReduceOp.SUM or not all(_names_variable(*p) for p in pairs):
            return [(_reduction(reduce_op), list(range(len(pairs))), None)]
        members: dict[tuple[str, str, str, bool], list[tuple[int, str]]] = {}
        for index, (value, variable) in enumerate(pairs):
            path, by_rule = self._reduction_of(variable)
            reduction = self._asked.reduction or by_rule
            codec = self._asked.compression_of(variable)
            is_sparse = codec is None and self._stays_sparse(value, reduction)
            key = (reduction, variable.dtype.name, codec.codec if codec else "", is_sparse)
            members.setdefault(key, []).append((index, path))
        buckets = []
        for (reduction, *_), indices_and_paths in sorted(members.items()):
            sizes = [_num_bytes(pairs[index][1]) for index, _ in indices_and_paths]
            for bucket in make_buckets(sizes, self._bucket_bytes):
                indices, paths = zip(*[indices_and_paths[place] for place in bucket])
                name = names.of_bucket(reduction, paths, [pairs[index][1] for index in indices])
                buckets.append((reduction, list(indices), name))
        return buckets

    def _allreduce_encoded(
        self, per_replica_values, variables, reduction: str, name: str, codec: Compression
    ) -> list[tf.Tensor]:
        refuse_in_xla()
        leaves = self._leaves(per_replica_values)
        lost = self._asked.encoding.lost_of(variables)
        counts = self._numbers.for_ops
        return encoded_allreduce_replicas(
            leaves, codec, lost, reduction, self._communicator, name, replica_counts=counts
        )

    def _allreduce_rows(
        self, per_replica_slices, variables, reduction: str, name: str
    ) -> list[tf.IndexedSlices]:
        """The variables say of what shape the slices are, which may not know it themselves."""
        refuse_in_xla()
        shapes = [tf.constant(variable.shape.as_list(), tf.int64) for variable in variables]
        leaves = [
            [tf.IndexedSlices(own.values, own.indices, shape) for own, shape in zip(leaf, shapes)]
            for leaf in zip(*[slices.values for slices in per_replica_slices])
        ]
        return sparse_allreduce_replicas(
            leaves, reduction, self._communicator, name, replica_counts=self._numbers.for_ops
        )

    def _allreduce(
        self,
        per_replica_values,
        reduction: str,
        name: str | None,
        norms: list[tf.Tensor] | None = None,
    ) -> list[tf.Tensor]:
        """Reduces; where there are `norms`, by Adasum, and appends what it keeps of the leaves."""
        refuse_in_xla()
        leaves = self._leaves(per_replica_values)
        stages = {
            # SUM and MEAN mean exactly that, over all replicas alike.
            "local_reduction": self._local_reduction if reduction == "adasum" else "adasum",
            "replica_counts": self._numbers.for_ops,
        }
        if norms is not None:
            results, found = measured_allreduce_replicas(leaves, self._communicator, name, **stages)
            norms.append(found)
            return results
        return allreduce_replicas(leaves, reduction, self._communicator, name, **stages)

    def _leaves(self, per_replica_values) -> list[list[tf.Tensor]]:
        """The tensors of each local replica."""
        of_replicas = [value.values for value in per_replica_values]
        return [[tf.convert_to_tensor(own) for own in leaf] for leaf in zip(*of_replicas)]

    def _of_each(self, value):
        """A value of each local replica: TensorFlow hands on once what is one object on all."""
        number = self._numbers.counts[self._communicator.rank]
        if len(value.values) == number:
            return value
        return tf_values.PerReplica(list(value.values) * number)


def _reduction(reduce_op: tf.distribute.ReduceOp) -> str:
    return reduce_op.value.lower()


def _has_rows(value) -> bool:
    return all(isinstance(of_replica, tf.IndexedSlices) for of_replica in value.values)


def _names_variable(value, destination) -> bool:
    return distribute_utils.is_distributed_variable(destination) and destination is not value


def _scatters(value, destination) -> bool:
    return _has_rows(value) and _names_variable(value, destination)


def _num_bytes(variable) -> int:
    return variable.shape.num_elements() * variable.dtype.size
