"""A training that loses ranks again and again ends with the bits of one that loses none."""

import os
import zlib

import pytest

from tests.faults.chaos import run

RANKS = 4


@pytest.mark.parametrize("kills", [2, 16], ids="{}_kills".format)
def test_kills_at_random_moments_change_nothing(kills):
    """Other moments each time, which a failure names: python -m tests.faults.chaos --seed=..."""
    seed = zlib.crc32(os.urandom(8))
    outcome = run.run(kills, seed, RANKS)
    made = "\n".join(map(run.describe, outcome.kills))
    assert outcome.faults() == [], f"seed {seed}\n{made}\n{outcome.log}"
    assert len(outcome.kills) == kills
