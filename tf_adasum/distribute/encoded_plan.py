"""How the variables of a plan travel: what the optimizer of their model says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from tf_adasum.collectives.compression.state import encoded_bytes
from tf_adasum.distribute.own_variables import parts_of
from tf_adasum.distribute.policy import PlanRow, Reduction
from tf_adasum.keras_hooks.steps.model_optimizers import wrapped_optimizers_of


def with_codecs(rows: Iterable[PlanRow], model: keras.Model, num_ranks: int) -> list[PlanRow]:
    """Returns rows of a plan with codecs and bytes.

    Args:
        rows: of the model's trainable variables, in their order.
        model: it, compiled with an optimizer of tf_adasum, or none.
        num_ranks: P; each rank reduces a part of every variable.
    """
    optimizers = wrapped_optimizers_of(model)
    planned = []
    for row, variable in zip(rows, model.trainable_variables):
        exchange = _exchange_of(variable, optimizers)
        (chosen,) = with_reduction([row], getattr(exchange, "reduction", None))
        planned.append(_with_codec(chosen, getattr(exchange, "encoding", None), num_ranks))
    return planned


def with_reduction(rows: Iterable[PlanRow], reduction: str | None) -> list[PlanRow]:
    """Returns rows with a reduction in the place of what the rules say; None: as they say."""
    if reduction is None:
        return list(rows)
    own = [Reduction(reduction, getattr(row.reduction, "compression", None)) for row in rows]
    return [row._replace(reduction=each) for row, each in zip(rows, own)]


def _exchange_of(variable: keras.Variable, optimizers: Sequence):
    """Of the optimizer that trains the variable; before they are built, of the first one."""
    trains = [
        each
        for each in optimizers
        if each.built and any(own is variable for own in each._trainable_variables)
    ]
    first = next(iter(trains or optimizers), None)
    return None if first is None else parts_of(first).exchange


def _with_codec(row: PlanRow, encoding, num_ranks: int) -> PlanRow:
    num_elements = tf.TensorShape(row.shape).num_elements()
    num_bytes = num_elements * tf.as_dtype(row.dtype).size
    codec = None
    if encoding is not None:
        codec = encoding.chosen(num_elements, row.dtype, row.reduction)
    if codec is None:
        return row._replace(num_bytes=num_bytes)
    num_bytes = encoded_bytes(codec, num_elements, row.dtype, num_ranks)
    return row._replace(codec=codec.codec, num_bytes=num_bytes)
