"""What the tests of collectives that move rows share."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum

DTYPES = [
    *("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32"),
    *("uint32", "int64", "uint64", "bool", "complex64", "complex128"),
]
# A function of each takes longer than to run it: some dtypes tell.
DTYPES_IN_BOTH = [
    *[pytest.param(dtype, False, id=f"eager-{dtype}") for dtype in DTYPES],
    *[pytest.param(dtype, True, id=f"function-{dtype}") for dtype in ("bfloat16", "int64", "bool")],
]
in_both = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])


def rows_of(rank, num_rows, row_shape, dtype):
    """What `rank` holds, as every rank can work out; no two neighbours hold the same."""
    count = num_rows * int(np.prod(row_shape))
    values = (np.arange(count) * 7 + 13 * rank) % 101
    if dtype == "bool":
        values = values % 2
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return values.reshape((num_rows, *row_shape)).astype(dtype)


def check_refused(operation, argument, compiled, *texts, needs_others=True):
    """All ranks get InvalidArgumentError, one line with all texts; then the world works as before.

    Args:
        operation: takes `argument`.
        argument: tensors.
        compiled: whether to call it in a tf.function.
        texts: what the line says.
        needs_others: whether one rank alone has nobody to differ from.
    """
    if needs_others and adasum.size() == 1:
        operation(argument)
        return
    call = tf.function(operation) if compiled else operation
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        call(argument)
    # TensorFlow puts the place in the graph around the line of an op in a function.
    (line,) = (line for line in caught.value.message.splitlines() if "Expected" in line)
    assert f"rank {adasum.rank()}: Expected" in line
    for text in texts:
        assert text in line
    count = adasum.allreduce(tf.ones([]), "sum", name="afterwards")
    assert count == adasum.size()


def check_refused_by_one(call, kind, text):
    """Rank 0 alone makes the call, which must ask nobody: all ranks meet at the one after it.

    Args:
        call: without arguments.
        kind: of the error.
        text: a regular expression of what it says.
    """
    if adasum.rank() == 0:
        with pytest.raises(kind, match=text):
            call()
    count = adasum.allreduce(tf.ones([]), "sum", name="afterwards")
    assert count == adasum.size()
