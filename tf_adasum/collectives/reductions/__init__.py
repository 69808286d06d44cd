"""The reductions, one file each: what they are called, which dtypes they take, micro-batches.

A file here says what Python needs to know of a reduction; the arithmetic over ranks is in
cc/reductions, in the file of the same name.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable

import tensorflow as tf

from tf_adasum.collectives.refusals import refusal


@dataclasses.dataclass(frozen=True)
class ReductionTraits:
    """What Python knows of a reduction that users name.

    Args:
        name: what `reduction=` takes.
        floats_only: whether only float16, bfloat16, float32 and float64 can be reduced.
        combine_pair: makes one tensor of two in TensorFlow's operations, for micro-batches, which
            meet in the same tree as ranks; of their shape and dtype.
        divides_leaves: whether each of K micro-batches is divided by K first.
        on_gpu: whether tensors on a GPU are reduced there, if that is asked for.
        is_odd: whether of minus all operands the result is minus what it was.
    """

    name: str
    floats_only: bool
    combine_pair: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    divides_leaves: bool = False
    on_gpu: bool = True
    is_odd: bool = True


def _load() -> dict[str, ReductionTraits]:
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    loaded = [importlib.import_module(f"{__name__}.{module}").REDUCTION for module in modules]
    return {reduction.name: reduction for reduction in loaded}


ALL: dict[str, ReductionTraits] = _load()


# What may reduce the ranks of a host before Adasum across hosts.
_LOCAL = ("adasum", "mean", "sum")


def names() -> list[str]:
    """All reductions' names, sorted.

    Example:
        >>> from tf_adasum.collectives import reductions
        >>> "adasum" in reductions.names()
        True
    """
    return sorted(ALL)


def check_name(name: str) -> None:
    """Raises ValueError, with the names there are, for a name that is none of them."""
    if not isinstance(name, str) or name not in ALL:
        advice = "Pass one of these."
        raise ValueError(refusal(f"a reduction among {names()}", repr(name), advice))


def check_stages(reduction: str, local_reduction: str) -> None:
    """Raises ValueError unless the reduction over all can follow the one inside a host."""
    check_name(reduction)
    check_name(local_reduction)
    if local_reduction not in _LOCAL:
        expected = f"a local reduction among {list(_LOCAL)}"
        raise ValueError(refusal(expected, repr(local_reduction), "Pass one of these."))
    if local_reduction != "adasum" and reduction != "adasum":
        expected = (
            f"the reduction 'adasum' where local_reduction={local_reduction!r}: a sum or a mean is "
            "over all ranks alike"
        )
        raise ValueError(refusal(expected, repr(reduction), "Leave one of the two out."))
