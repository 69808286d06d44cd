"""Batches in which some replicas have no row."""

from __future__ import annotations

import keras
import pytest

from tests.training.replicas import LOCAL
from tf_adasum.collectives.communicator import world

PER_REPLICA = 4
# One replica alone has every row.
WITH_PEERS = [num_local for num_local in LOCAL if num_local * world().size > 1]
local_replicas = pytest.mark.parametrize("num_local", WITH_PEERS)


def momentum():
    return keras.optimizers.SGD(0.05, momentum=0.9)


def parts_of(x, y, num_local, number):
    """For each global batch, the rows of replica p * L + l: sub-batch l * P + p."""
    sub_batches = [(r % num_local) * world().size + r // num_local for r in range(number)]
    for first in range(0, len(x), PER_REPLICA * number):
        rows = [part[first : first + PER_REPLICA * number] for part in (x, y)]
        length = -(-len(rows[0]) // number)
        yield [tuple(part[s * length : (s + 1) * length] for part in rows) for s in sub_batches]


def rows_of_two_batches(number):
    """The second is a row each for half of the replicas."""
    return PER_REPLICA * number + max(1, number // 2)
