"""What the tests of ranks with unlike numbers of devices share."""

from __future__ import annotations

import pytest

from tests.training.replicas import strategy
from tf_adasum.collectives.communicator import world

COUNTS = [2, 1, 2, 1, 1][: world().size]
OTHERS = [1, 2, 1, 1, 2][: world().size]
both = pytest.mark.parametrize("counts", [COUNTS, OTHERS], ids=str)


def on_devices(counts=None, **options):
    """A strategy with this rank's number of devices."""
    return strategy((counts or COUNTS)[world().rank], **options)


def by_mean(counts=None, **options):
    """The same, of means."""
    return on_devices(counts, reductions=[(".", "mean")], **options)


def ranks_replicas(counts=None):
    """The numbers of this rank's replicas."""
    counts = counts or COUNTS
    first = sum(counts[: world().rank])
    return list(range(first, first + counts[world().rank]))
