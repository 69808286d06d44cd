"""Whether ranks have the same examples in a `tf.data` pipeline, and in the same order.

A pipeline that TensorFlow shards after the shuffle is the same on all ranks, and each takes its
share of every batch. With unlike shuffles some examples would be in no share, and others in two. So
they would where `tf.data` hands over what is ready first.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import from_tensor_slices_op, map_op, shard_op, shuffle_op
from tensorflow.python.data.ops import options as options_lib

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import first_unlike, gather_json, in_words_of_two
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.data.unlike_arrays import digest_of_rows

require_hooks(tf.data.Dataset, "_inputs", "_functions", "_as_serialized_graph")
require_hooks(from_tensor_slices_op, "_TensorSliceDataset")
require_hooks(map_op, "_ParallelMapDataset")
require_hooks(shard_op, "_ShardDataset")
require_hooks(shuffle_op, "_ShuffleDataset")
require_reads(from_tensor_slices_op._TensorSliceDataset, "__init__", "_tensors")
require_reads(map_op._ParallelMapDataset, "__init__", "_deterministic")
for _reader in (tf.data.TextLineDataset, tf.data.FixedLengthRecordDataset):
    require_reads(_reader, "__init__", "_filenames")
require_reads(shard_op._ShardDataset, "__init__", "_num_shards", "_index")
require_reads(shuffle_op._ShuffleDataset, "__init__", "_seed", "_seed2")

_Policy = tf.data.experimental.AutoShardPolicy
_Slices = from_tensor_slices_op._TensorSliceDataset
# In names of classes and operations of TensorFlow.
_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
_ORDERING = ("Shuffle", "RandomDataset")
_NO_SEED = (0, 0)

_log = logging.getLogger("tf_adasum")


def check_order(dataset: tf.data.Dataset, communicator: Communicator) -> None:
    """Fails on all ranks alike where they would shuffle a dataset differently.

    Where tensors in memory, of which rows are dealt, or files are not rank 0's, rank 0 says so.

    Args:
        dataset: what TensorFlow is going to shard.
        communicator: the ranks that it is sharded over; all must call it.

    Raises:
        ValueError: names the first rank whose seeds are not rank 0's, or that there are none; or
            the program asks for an order of chance, or has dealt the data itself.
    """
    if deals_rows(dataset) and any(map(_is_in_order_of_chance, nodes(dataset))):
        expected = "data in the same order on all ranks, since each takes its share of every batch"
        advice = (
            "Leave it out: as options().deterministic it is left out where rows are dealt. Where "
            "TensorFlow Datasets says it, by shuffle_files=True, pass "
            "read_config=tfds.ReadConfig(shuffle_seed=1)."
        )
        raise ValueError(refusal(expected, "deterministic=False", advice))
    order = [_shards(dataset), repr(order_seeds(dataset)), _rows(dataset), _files(dataset)]
    shards, seeds, rows, files = zip(*gather_json(order, communicator, "order of a pipeline"))
    _check_whole(shards, communicator)
    _check_seeds(seeds, communicator)
    if (rank := first_unlike(rows)) and communicator.rank == 0:
        _log.warning(
            "%s was given a pipeline of other tensors than %s. Each rank takes its share "
            "of every batch from its own, so that rows of all others are left out, or come twice. "
            "Give all ranks the same tensors (seed what shuffles or splits them), or set "
            "AutoShardPolicy.OFF where ranks have rows of their own.",
            *(communicator.in_words(rank), communicator.in_words(0)),
        )
    if (rank := first_unlike(files)) and communicator.rank == 0:
        _log.warning(
            "%s was given other files than %s, or in another order. Each rank takes its share of "
            "its own list, so that no rank reads some files, and several read others. Give all "
            "ranks the same list (sort it, or seed what shuffles it), or set AutoShardPolicy.OFF "
            "where ranks have files of their own.",
            *(communicator.in_words(rank), communicator.in_words(0)),
        )


def _rows(dataset: tf.data.Dataset) -> int:
    """A digest of a few rows of the tensors that a pipeline begins with; 0 where none are dealt."""
    if not deals_rows(dataset):
        return 0
    of_files = set(map(id, _names_of_files(dataset)))
    slices = [node for node in nodes(dataset) if isinstance(node, _Slices)]
    return digest_of_rows(
        [[each for each in node._tensors if id(each) not in of_files] for node in slices]
    )


def _files(dataset: tf.data.Dataset) -> int:
    """A digest of the names of files that a pipeline reads, but for the folder of them all.

    Hosts may have it under names of their own.
    """
    if policy_of(dataset) == _Policy.OFF:
        return 0
    names = []
    for known in map(tf.get_static_value, _names_of_files(dataset)):
        names.extend(() if known is None else np.ravel(known).tolist())
    # Of gs:// and the like, too, and cut at a slash.
    folder = os.path.dirname(os.path.commonprefix(names) or b"")  # noqa: RUF071
    return zlib.crc32(repr([name.removeprefix(folder) for name in names]).encode())


def _names_of_files(dataset: tf.data.Dataset) -> list[tf.Tensor]:
    """The tensors of them, each once."""
    before = {id(node): node for each in file_readers(dataset) for node in nodes(each)}
    slices = [node for node in before.values() if isinstance(node, _Slices)]
    return [each for node in slices for each in node._tensors if each.dtype == tf.string]


def _check_seeds(of_ranks: Sequence[str], communicator: Communicator) -> None:
    name_of = communicator.in_words
    if rank := first_unlike(of_ranks):
        received = (
            f"{name_of(rank)} shuffles it by seeds of its own, {of_ranks[rank]}, and {name_of(0)} "
            f"by {of_ranks[0]}, where {_NO_SEED} is no seed"
        )
    elif repr(_NO_SEED) in of_ranks[0]:
        received = f"no seed on any rank: {of_ranks[0]}, where {_NO_SEED} is none"
    else:
        return
    expected = (
        "data shuffled by the same seeds on all ranks, since each takes its share of every batch"
    )
    advice = (
        "Create the AdasumStrategy before the data, that of image_dataset_from_directory and the "
        "like too, and set no seed in between that ranks do not share."
    )
    raise ValueError(refusal(expected, received, advice))


def _shards(dataset: tf.data.Dataset) -> str:
    """How a program deals the data itself, where TensorFlow would deal it again."""
    own = [] if policy_of(dataset) == _Policy.OFF else list(map(_shard, nodes(dataset)))
    return ", ".join(filter(None, own))


def _check_whole(of_ranks: Sequence[str], communicator: Communicator) -> None:
    if rank := first_unlike(of_ranks):
        expected = "the whole data on all ranks, since each takes its share of every batch"
        first, other = (of_ranks[each] or "none" for each in (0, rank))
        received = in_words_of_two(first, other, rank, communicator)
        advice = "Leave shard() out, or set options().experimental_distribute.auto_shard_policy to "
        raise ValueError(refusal(expected, received, advice + "OFF."))


def _shard(node: tf.data.Dataset) -> str:
    """As the program has it; empty for what is no shard()."""
    if "ShardDataset" not in type(node).__name__:
        return ""
    number, index = (int(tf.get_static_value(each)) for each in (node._num_shards, node._index))
    return f"shard({number}, {index})"


def order_seeds(dataset: tf.data.Dataset) -> list[tuple[int, int]]:
    """The seeds that decide the order of what TensorFlow deals to ranks.

    Where it deals files, that is the order of the files; nothing where it deals nothing.

    Args:
        dataset: a pipeline, in the state in which it is given to `fit`.
    """
    if policy_of(dataset) == _Policy.OFF:
        return []
    if deals_rows(dataset):
        return [seeds for node in nodes(dataset) for seeds in _own_seeds(node)]
    readers = file_readers(dataset)
    before = [node for reader in readers for each in inputs_of(reader) for node in nodes(each)]
    return [seeds for node in before for seeds in _own_seeds(node)]


def policy_of(dataset: tf.data.Dataset) -> tf.data.experimental.AutoShardPolicy:
    """What TensorFlow may deal of a pipeline."""
    return dataset.options().experimental_distribute.auto_shard_policy


def deals_rows(dataset: tf.data.Dataset) -> bool:
    """Whether TensorFlow deals ranks rows of each batch; not files, and not nothing."""
    if policy_of(dataset) in (_Policy.AUTO, _Policy.FILE):
        return not file_readers(dataset)
    return policy_of(dataset) != _Policy.OFF


def in_one_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same data; where rows are dealt, in their order and not as they are ready."""
    if dataset.options().deterministic is not False or not deals_rows(dataset):
        return dataset
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


def file_readers(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """The parts of a pipeline that read files; the inputs of each are names of files."""
    return [node for node in nodes(dataset) if _reads_files(node)]


def nodes(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """The dataset and all that it reads from, beginning with itself."""
    yield dataset
    for each in inputs_of(dataset):
        yield from nodes(each)


def inputs_of(node: tf.data.Dataset) -> list[tf.data.Dataset]:
    """What a dataset reads from; TextLineDataset tells no inputs, and keeps names of files."""
    names = getattr(node, "_filenames", None)
    return node._inputs() or ([names] if isinstance(names, tf.data.Dataset) else [])


def _operations(node) -> Iterator[tf.Operation]:
    for function in node._functions():
        yield from function.function.graph.get_operations()


def operation_types(node: tf.data.Dataset) -> Iterator[str]:
    """Names of TensorFlow's operations in the functions of one dataset, and in those they call."""
    for function in node._functions():
        graph = function.function.graph.as_graph_def()
        for operations in (graph.node, *(inner.node_def for inner in graph.library.function)):
            yield from (operation.op for operation in operations)


def _reads_files(node) -> bool:
    # `interleave(tf.data.TFRecordDataset)` reads in a function that its function calls.
    names = [type(node).__name__, *operation_types(node)]
    return any(reader in name for name in names for reader in _READERS)


def _is_in_order_of_chance(node: tf.data.Dataset) -> bool:
    """Whether it was made with deterministic=False; of a single input that changes nothing."""
    if "ParallelInterleave" not in type(node).__name__:
        return getattr(node, "_deterministic", None) == "false"
    (source,) = node._inputs()
    if int(source.cardinality()) == 1:
        return False
    # It does not remember; its graph does.
    ignore = options_lib.ExternalStatePolicy.IGNORE
    graph = tf.compat.v1.GraphDef.FromString(
        node._as_serialized_graph(external_state_policy=ignore).numpy()
    )
    return any(
        each.op.startswith("ParallelInterleave") and each.attr["deterministic"].s == b"false"
        for each in graph.node
    )


def _own_seeds(node) -> Iterator[tuple[int, int]]:
    if hasattr(node, "_seed2"):
        yield int(node._seed), int(node._seed2)
    is_filter = "Filter" in type(node).__name__
    for operation in _operations(node):
        if not is_filter and not any(name in operation.type for name in _ORDERING):
            continue
        values = [operation.node_def.attr[name] for name in ("seed", "seed2")]
        if all(value.HasField("i") for value in values):
            yield tuple(value.i for value in values)
        elif "Dataset" in operation.type:
            names = [argument.name for argument in operation.op_def.input_arg]
            inputs = [operation.inputs[names.index(name)] for name in ("seed", "seed2")]
            yield tuple(int(tf.get_static_value(tensor)) for tensor in inputs)
