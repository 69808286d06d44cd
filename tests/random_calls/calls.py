"""One call of a collective, as JSON describes it: what each rank passes, and what has to come back.

Every rank works out what all pass, so that it can check its own result.
"""

from __future__ import annotations

import zlib

import ml_dtypes
import numpy as np
import tensorflow as tf

import tf_adasum as adasum
from tests.contract import error_model

FLOATS = ("float16", "bfloat16", "float32", "float64")
OTHERS = ("int32", "int64", "bool")


# What a description may name in place of an argument.
BAD_VALUES = {
    "object": object(),
    "surrogate": "\ud800",
    "list": ["sum"],
    "none": None,
    "number": 3,
}


def _dtype(name: str):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def inputs(call: dict, rank: int) -> list[np.ndarray]:
    """What a rank of the group passes."""
    draw = np.random.default_rng([call["seed"], rank])
    shapes = call["shapes"]
    if call["collective"] == "allgather":
        shapes = [[call["rows"][rank], *shapes[0][1:]]]
    if call["collective"] == "alltoall":
        shapes = [[sum(call["splits"][rank]), *shapes[0][1:]]]
    values = [draw.normal(size=shape) * 3 for shape in shapes]
    if call["dtype"] in OTHERS:
        values = [np.rint(value / 3) for value in values]  # bools of both kinds
    return [np.asarray(value).astype(_dtype(call["dtype"])) for value in values]


def carry_out(call: dict, communicator: adasum.Communicator) -> list[np.ndarray]:
    """Makes this rank's call; returns what came back."""
    rank = communicator.rank
    arguments = {"communicator": communicator, "name": call["name"]}
    arguments |= {key: BAD_VALUES[bad] for key, bad in call.get("bad", {}).items()}
    arrays = inputs(call, rank)
    tensors = arguments.pop("tensors", arrays)
    name = call["collective"]
    if name == "barrier":
        adasum.barrier(**arguments)
        return []
    if name in ("allreduce", "allreduce_arrays", "reduce_scatter"):
        arguments.setdefault("reduction", call["reduction"])
    if name == "allreduce_arrays":
        adasum.allreduce_arrays(tensors, **arguments)
        return arrays
    if name == "alltoall":
        arguments.setdefault("splits", call["splits"][rank])
    if name == "broadcast":
        arguments.setdefault("root", call["root"])
    result = _function(name, call["compiled"])(tensors, **arguments)
    if name == "alltoall":
        result = result[0]
    return [tensor.numpy() for tensor in result]


def _function(name: str, compiled: bool):
    function = getattr(adasum, name)
    if not compiled:
        return function

    def in_function(tensors, **arguments):
        return tf.function(lambda *each: function(list(each), **arguments))(*tensors)

    return in_function


def check(call: dict, results: list[np.ndarray], communicator: adasum.Communicator) -> None:
    """Fails unless the results are those of NumPy."""
    rank, size = communicator.rank, communicator.size
    everybodys = [inputs(call, each) for each in range(size)]
    name = call["collective"]
    for index, result in enumerate(results):
        parts = [of_rank[index] for of_rank in everybodys]
        if name in ("allreduce", "allreduce_arrays"):
            error_model.check(call["reduction"], result, parts)
        elif name == "reduce_scatter":
            share = _share(parts[0].shape[0], rank, size)
            error_model.check(call["reduction"], result, [part[share] for part in parts])
        else:
            np.testing.assert_array_equal(result, _moved(name, call, parts, rank))


def _share(num_rows: int, rank: int, size: int) -> slice:
    each, more = divmod(num_rows, size)
    begin = rank * each + min(rank, more)
    return slice(begin, begin + each + (rank < more))


def _moved(name: str, call: dict, parts: list[np.ndarray], rank: int) -> np.ndarray:
    if name == "allgather":
        return np.concatenate(parts)
    if name == "broadcast":
        return parts[call["root"]]
    ends = [np.cumsum(splits) for splits in call["splits"]]
    rows = [
        part[end[rank] - splits[rank] : end[rank]]
        for part, end, splits in zip(parts, ends, call["splits"], strict=True)
    ]
    return np.concatenate(rows)


def checksum(results: list[np.ndarray]) -> int:
    """Of the bits of all results."""
    total = 0
    for result in results:
        total = zlib.crc32(np.ascontiguousarray(result).tobytes(), total)
    return total
