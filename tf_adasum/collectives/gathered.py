"""What every rank holds, on all ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_adasum.collectives.allgather import allgather
from tf_adasum.collectives.communicator import Communicator


def gather_bytes(own: bytes, communicator: Communicator, name: str) -> list[bytes]:
    """Returns the bytes of every rank, in the order of ranks; collective, in one exchange.

    Args:
        own: this rank's bytes, any number of them.
        communicator: whose ranks take part.
        name: equal on all ranks for what belongs together.

    Returns:
        A list of as many `bytes` as there are ranks.

    Raises:
        As `allgather`.

    Example:
        >>> import tf_adasum as adasum
        >>> from tf_adasum.collectives.gathered import gather_bytes
        >>> gather_bytes(b"abc", adasum.world(), "what each rank says")
        [b'abc']
    """
    with tf.device("CPU:0"):
        rows = [tf.constant([len(own)], tf.int64), tf.constant(np.frombuffer(own, np.uint8))]
        sizes, everybodys = allgather(rows, communicator, name)
    ends = np.cumsum(sizes.numpy())
    data = everybodys.numpy()
    return [data[end - size : end].tobytes() for size, end in zip(sizes.numpy(), ends)]


def gather_json(own: Any, communicator: Communicator, name: str) -> list[Any]:
    """As `gather_bytes`, of what JSON can hold.

    Args:
        own: this rank's value; of a tuple a list arrives.
        communicator: whose ranks take part.
        name: equal on all ranks for what belongs together.

    Returns:
        The values of all ranks, in their order.

    Raises:
        As `allgather`.

    Example:
        >>> import tf_adasum as adasum
        >>> from tf_adasum.collectives.gathered import gather_json
        >>> gather_json({"files": ["a", "b"]}, adasum.world(), "what each rank reads")
        [{'files': ['a', 'b']}]
    """
    gathered = gather_bytes(json.dumps(own).encode(), communicator, name)
    return [json.loads(each) for each in gathered]


def first_unlike(of_ranks: Sequence[Any]) -> int | None:
    """Returns the first rank whose value is not rank 0's; None if all are alike."""
    return next((rank for rank, value in enumerate(of_ranks) if value != of_ranks[0]), None)


def in_words_of_two(first: Any, other: Any, rank: int, communicator: Communicator) -> str:
    """Names in a message what rank 0 has, and what another one has.

    Args:
        first: what rank 0 has.
        other: what `rank` has.
        rank: the other one.
        communicator: whose ranks they are; the message has their numbers in the world.

    Example:
        >>> import tf_adasum as adasum
        >>> from tf_adasum.collectives.gathered import in_words_of_two
        >>> in_words_of_two(3, 4, adasum.size() - 1, adasum.world())
        '3 on rank 0, 4 on rank 0'
    """
    return f"{first} on {communicator.in_words(0)}, {other} on {communicator.in_words(rank)}"
