"""`predict` returns the outputs for all rows of the data, in their order, on every rank.

Each rank computes its share of every batch, and the ranks gather the outputs after each step, so
that callbacks see those of the whole batch too. Replica (p, l) has part l * P + p of a batch; where
ranks have unlike numbers of replicas, each rank's have parts that follow each other.

`predict_on_batch` gives all local replicas the whole batch; the first one's outputs are returned.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, TFEpochIterator

from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.collectives.refusals import refusal
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.data.num_batches import is_sharded

require_hooks(keras_trainer, "concat")
require_hooks(TensorFlowTrainer, "make_predict_function", "predict", "predict_on_batch")
require_hooks(TFEpochIterator, "__init__")


def install() -> None:
    """Lets the step of `predict` return the outputs of all ranks."""
    _deal_rows_in_order()
    make = TensorFlowTrainer.make_predict_function

    @functools.wraps(make)
    def make_whole(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if not hasattr(self.predict_function, "adasum_original"):
            self.predict_function = _gathering(self, self.predict_function)

    TensorFlowTrainer.make_predict_function = make_whole
    predict_on_batch = TensorFlowTrainer.predict_on_batch

    @functools.wraps(predict_on_batch)
    def predict_once(self, x):
        outputs, copies = predict_on_batch(self, x), _num_local(self)
        return keras.tree.map_structure(
            lambda leaf: leaf if copies == 1 else _between(leaf, 0, _num_rows(leaf) // copies),
            outputs,
        )

    TensorFlowTrainer.predict_on_batch = predict_once


def _deal_rows_in_order() -> None:
    """Lets every rank compute a part of each batch, of files too; where data are dealt at all."""
    original = TFEpochIterator.__init__

    @functools.wraps(original)
    def make(self, *args, **kwargs):
        call = calls.current()
        if call is None or call.name != "predict" or call.communicator is None:
            original(self, *args, **kwargs)
            return
        with call.model.distribute_strategy.extended.rows_in_order.raised():
            original(self, *args, **kwargs)
        call.shares_data = is_sharded(self.data_adapter)

    TFEpochIterator.__init__ = make


def _gathering(model: keras.Model, step):
    @functools.wraps(step)
    def step_on_all_ranks(data):
        call = calls.current()
        is_predict = call is not None and call.model is model and call.name == "predict"
        try:
            outputs = step(data)
        except tf.errors.InvalidArgumentError as error:
            if not is_predict or 0 not in _rows_of_parts(data, model):
                raise
            raise _on_made_up_row(error, model) from error
        if not is_predict:
            return outputs
        rows = _rows_of_parts(data, model)
        if not rows:
            return _of_first_replica(outputs, len(data), model)
        if call.in_turn or call.communicator is None or not call.shares_data:
            return outputs
        numbers = model.distribute_strategy.extended.numbers
        return _of_all_ranks(outputs, rows, call.communicator, numbers)

    step_on_all_ranks.adasum_original = step
    return step_on_all_ranks


def _on_made_up_row(error: tf.errors.InvalidArgumentError, model: keras.Model):
    """The error of a step in which a replica had no row, with a sentence about that."""
    number = model.distribute_strategy.num_replicas_in_sync
    sentence = (
        "tf_adasum: A replica of this process had no row and computed on a row of zeros, of which "
        f"this may be the error. Predict {number} rows at once or more, or call model(x)."
    )
    return tf.errors.InvalidArgumentError(error.node_def, error.op, f"{error.message}\n{sentence}")


def _rows_of_parts(data: Sequence, model: keras.Model) -> list[int]:
    """Numbers of rows that the local replicas got: of each step, of each replica in it."""
    rows = []
    for of_step in data:
        for leaf in tf.nest.flatten(of_step):
            values = model.distribute_strategy.experimental_local_results(leaf)
            # No Optional, no None and no scalar.
            if all(len(getattr(value, "shape", ())) > 0 for value in values):
                rows += [_num_rows(value) for value in values]
                break
    return rows


def _num_local(model: keras.Model) -> int:
    extended = model.distribute_strategy.extended
    return len(extended.worker_devices) if isinstance(extended, HookedExtended) else 1


def _of_first_replica(outputs, num_steps: int, model: keras.Model):
    """The outputs for some steps' scalars, which all replicas of all ranks have computed on."""
    num_local = _num_local(model)
    if num_local == 1:
        return outputs

    def of_first(leaf):
        parts = _parts(leaf, [1] * (num_steps * num_local))
        if parts is None:
            raise _no_order([leaf], num_steps * num_local)
        with tf.device("CPU:0"):
            return keras_trainer.concat(parts[::num_local])

    return keras.tree.map_structure(of_first, outputs)


def _of_all_ranks(outputs, rows: Sequence[int], communicator, numbers: ReplicaNumbers):
    """The outputs of all ranks for the same steps, put together in the order of the data."""
    leaves = keras.tree.flatten(outputs)
    parts = [_parts(leaf, rows) for leaf in leaves]
    own = None if None in parts else [[_components(part) for part in of_leaf] for of_leaf in parts]
    dtypes = [[part.dtype for part in _components(leaf)] for leaf in leaves]
    everybodys = [
        _unpacked(received, dtypes)
        for received in gather_bytes(_packed(own), communicator, "outputs of predict")
    ]
    if None in everybodys:
        raise _no_order(leaves, sum(rows))
    order = _in_order(len(rows) // numbers.counts[communicator.rank], numbers)
    whole = [
        _joined(leaf, [everybodys[rank][index][part] for rank, part in order])
        for index, leaf in enumerate(leaves)
    ]
    return keras.tree.pack_sequence_as(outputs, whole)


def _no_order(leaves: Sequence, rows: int) -> ValueError:
    expected = (
        "as many rows of output as of input, or a multiple of them, to put those of several "
        "replicas or steps of a rank in order"
    )
    received = f"{[tuple(leaf.shape) for leaf in leaves]}, where rows of input are {rows}"
    advice = "Predict with one device per rank and steps_per_execution=1."
    return ValueError(refusal(expected, received, advice))


def _in_order(num_steps: int, numbers: ReplicaNumbers) -> list[tuple[int, int]]:
    """(rank, its part) of the parts of some steps, in the order of the data."""
    order = []
    for step in range(num_steps):
        of_ranks = [
            [(rank, step * count + replica) for replica in range(count)]
            for rank, count in enumerate(numbers.counts)
        ]
        parts = of_ranks if numbers.are_unlike else zip(*of_ranks)
        order += [each for several in parts for each in several]
    return order


def _parts(leaf, rows: Sequence[int]) -> list | None:
    """An output cut where replicas and steps meet; None if that can't be told."""
    if len(rows) == 1:
        return [leaf]
    given, got = sum(rows), _num_rows(leaf)
    if got % given if given else got:
        return None
    ends = np.cumsum(rows) * (got // given if given else 0)
    return [_between(leaf, begin, end) for begin, end in zip([0, *ends[:-1]], ends)]


def _between(leaf, begin: int, end: int):
    if not isinstance(leaf, tf.SparseTensor):
        return leaf[begin:end]
    shape = leaf.dense_shape.numpy()
    start = np.zeros_like(shape)
    start[0], shape[0] = begin, end - begin
    return tf.sparse.slice(leaf, start, shape)


def _num_rows(value) -> int:
    if isinstance(value, tf.SparseTensor):
        return int(value.dense_shape[0])
    return int(value.nrows()) if isinstance(value, tf.RaggedTensor) else value.shape[0]


def _components(value) -> list[tf.Tensor]:
    if isinstance(value, tf.SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    if isinstance(value, tf.RaggedTensor):
        return [value.flat_values, *value.nested_row_splits]
    return [tf.convert_to_tensor(value)]


def _packed(outputs: list[list[list[tf.Tensor]]] | None) -> bytes:
    """Tensors behind a line that has their numbers of bytes; no pickle, which can run programs."""
    if outputs is None:
        return b"null\n"
    with tf.device("CPU:0"):
        bytes_of = keras.tree.map_structure(lambda t: tf.io.serialize_tensor(t).numpy(), outputs)
    lengths = json.dumps(keras.tree.map_structure(len, bytes_of))
    return b"\n".join([lengths.encode(), b"".join(keras.tree.flatten(bytes_of))])


def _unpacked(received: bytes, dtypes: list[list[tf.DType]]) -> list[list[list[tf.Tensor]]] | None:
    """What a rank packed, of the dtypes that the components of each output have here."""
    line, _, rest = received.partition(b"\n")
    lengths = json.loads(line)
    if lengths is None:
        return None
    unread = iter(np.cumsum([0, *keras.tree.flatten(lengths)]))
    begin = next(unread)

    def next_tensor(dtype):
        nonlocal begin
        text, begin = rest[begin : (end := next(unread))], end
        return tf.io.parse_tensor(text, dtype)

    with tf.device("CPU:0"):
        return [
            [[next_tensor(dtype) for dtype in of_leaf] for _ in parts]
            for of_leaf, parts in zip(dtypes, lengths, strict=True)
        ]


def _joined(leaf, parts: Sequence[list[tf.Tensor]]):
    """One output of the parts of all ranks; those without rows may lack the others' shape."""
    with tf.device("CPU:0"):
        values = [_value_like(leaf, part) for part in parts]
        full = [value for value in values if value.shape.rank == 0 or _num_rows(value) > 0]
        return keras_trainer.concat(full) if full else leaf


def _value_like(leaf, parts: Sequence[tf.Tensor]):
    if isinstance(leaf, tf.SparseTensor):
        return tf.SparseTensor(*parts)
    if isinstance(leaf, tf.RaggedTensor):
        return tf.RaggedTensor.from_nested_row_splits(parts[0], parts[1:])
    return parts[0]
