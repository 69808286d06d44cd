"""How the variables of a plan travel: what the optimizer of their model says of them."""

from __future__ import annotations

from collections.abc import Iterable

import keras
import tensorflow as tf

from tf_adasum.collectives.compression.state import encoded_bytes
from tf_adasum.distribute.own_variables import parts_of
from tf_adasum.distribute.policy import PlanRow
from tf_adasum.keras_hooks.model_optimizers import wrapped_optimizers_of


def with_codecs(rows: Iterable[PlanRow], model: keras.Model, num_ranks: int) -> list[PlanRow]:
    """Returns rows of a plan with codecs and bytes.

    Args:
        rows: of the model's trainable variables, in their order.
        model: it, compiled with an optimizer of tf_adasum, or none.
        num_ranks: P; each rank reduces a part of every variable.
    """
    encodings = [parts_of(each).exchange.encoding for each in wrapped_optimizers_of(model)]
    encoding = encodings[0] if encodings else None
    return [_with_codec(row, encoding, num_ranks) for row in rows]


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
