"""What every collective on tensors does before and around its op."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native, reductions
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.dtypes import FIXED_SIZE, FLOATS, NUMBERS
from tf_adasum.collectives.refusals import refusal, shown

# The op then makes a name from what it gets. Not made here: TensorFlow keeps a kernel for every
# value of an attribute, and names with shapes in them would fill the memory.
UNNAMED = ""


# For hundreds of gradients, called eagerly, what is done for each of them takes as long as the
# exchange: the usual case first.
def as_tensors(values: Sequence[Any]) -> list[tf.Tensor]:
    """Returns the values as tensors; `tf.IndexedSlices` become dense.

    Raises:
        TypeError: for what is no tensor and can't be made one.
        ValueError: for `tf.IndexedSlices` that don't say what they are slices of.
    """
    return [x if isinstance(x, tf.Tensor) else _as_tensor(x) for x in values]


def _as_tensor(value: Any) -> tf.Tensor:
    if isinstance(value, tf.IndexedSlices) and value.dense_shape is None:
        expected = (
            "tensors, or tf.IndexedSlices with a dense_shape: they are exchanged as dense tensors"
        )
        advice = "Pass tf.IndexedSlices(values, indices, dense_shape)."
        raise ValueError(refusal(expected, shown(value), advice))
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        # TensorFlow says of a list, a Keras input or a sparse tensor different things, in pages.
        advice = "Pass a tensor, or a structure of tensors."
        line = refusal("what tf.convert_to_tensor makes a tensor of", shown(value), advice)
        raise TypeError(line) from error


def check_fixed_size(tensors: Sequence[tf.Tensor]) -> None:
    """Raises InvalidArgumentError for a dtype that can't be moved as bytes, such as string."""
    for tensor in tensors:
        if tensor.dtype.name not in FIXED_SIZE:
            advice = "Objects of other types go by mpi4py (docs/usage.md)."
            line = refusal(f"a dtype among {', '.join(FIXED_SIZE)}", tensor.dtype.name, advice)
            raise tf.errors.InvalidArgumentError(None, None, line)


def check_dtypes(reduction: str, dtypes: Iterable[str]) -> None:
    """Raises InvalidArgumentError for a dtype that can't be reduced so.

    Before the op, so that one rank refuses what several would.
    """
    allowed = FLOATS if reductions.ALL[reduction].floats_only else NUMBERS
    for dtype in dtypes:
        if dtype not in allowed:
            expected = f"a dtype among {', '.join(allowed)} for the reduction {reduction}"
            line = refusal(expected, dtype, "Cast the tensors, or use another reduction.")
            raise tf.errors.InvalidArgumentError(None, None, line)


# Names of dtypes only once for each dtype: see as_tensors.
def indices_by_dtype(tensors: Sequence[tf.Tensor]) -> dict[str, Sequence[int]]:
    """Returns the places of the tensors of each dtype, by its name."""
    dtypes = [tensor.dtype for tensor in tensors]
    if dtypes and dtypes.count(dtypes[0]) == len(dtypes):
        return {dtypes[0].name: range(len(dtypes))}
    indices: dict[str, Sequence[int]] = {}
    for index, dtype in enumerate(dtypes):
        indices.setdefault(dtype.name, []).append(index)
    return indices


def name_of_dtype(name: str | None, dtype: str, dtypes: Collection[str]) -> str | None:
    """Returns the name of the op for one of the dtypes of a call that has a name.

    There is one op for each dtype, each with a name of its own.
    """
    return f"{name}/{dtype}" if name and len(dtypes) > 1 else name


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Around an op that the caller waits for: Ctrl-C ends the wait with KeyboardInterrupt."""
    try:
        yield
    except tf.errors.CancelledError:
        native.lib.raise_interrupt()
        raise


@contextlib.contextmanager
def issuing(
    communicator: Communicator, name: str | None, ordered: bool
) -> Iterator[tuple[tf.Tensor, dict[str, Any]]]:
    """Around the op of a collective: it runs on the CPU, and Ctrl-C ends an eager one.

    Args:
        communicator: whose ranks take part.
        name: as users give it.
        ordered: inside a tf.function, whether it keeps its place among the other ordered ones;
            else it does among those of its name.

    Yields:
        The op's first input, and the attributes that all such ops have.
    """
    is_eager = tf.executing_eagerly()
    # Eager calls are in order by themselves.
    handle = communicator.handle_on("CPU:0", None if ordered or is_eager else name)
    with interruptible(), tf.device("CPU:0"):
        yield handle, {"tensor_name": name or UNNAMED, "caller_waits": is_eager}
