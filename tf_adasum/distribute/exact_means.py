"""Reduces values of replicas so that a mean of whole numbers keeps its fraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import values as tf_values

from tf_adasum.collectives.whole_numbers import is_whole, quotient, summand


def reduce_exactly(
    per_replica_values: Sequence[Any],
    reduction: str,
    num_values: int,
    exchange: Callable[[Sequence[Any], str], list[tf.Tensor]],
) -> list[tf.Tensor]:
    """Reduces by the exchange; of a mean whole numbers are added up by it, and divided here.

    Args:
        per_replica_values: each with `values`, one of each local replica.
        reduction: of all of them.
        num_values: how many values a mean is of, on all ranks together.
        exchange: takes a part of the values, and a reduction.

    Returns:
        A tensor for each value; of a mean of whole numbers a float64.
    """
    is_summed = [reduction == "mean" and is_whole(each.values[0]) for each in per_replica_values]
    results: list[Any] = [None] * len(per_replica_values)
    for sums in sorted(set(is_summed)):  # the same order on all ranks
        places = [place for place, each in enumerate(is_summed) if each == sums]
        part = [per_replica_values[place] for place in places]
        part = [_summands(each) for each in part] if sums else part
        for place, result in zip(places, exchange(part, "sum" if sums else reduction)):
            results[place] = quotient(result, num_values) if sums else result
    return results


def _summands(per_replica_value: Any) -> tf_values.PerReplica:
    return tf_values.PerReplica([summand(value) for value in per_replica_value.values])
