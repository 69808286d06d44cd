"""A training that loses a rank eight times ends with the bits of one that loses none."""

import os
import zlib

from tests.faults.chaos import run

KILLS, RANKS = 8, 4


def test_kills_at_random_moments_change_nothing():
    """Other moments each time, which a failure names: python -m tests.faults.chaos --seed=..."""
    seed = zlib.crc32(os.urandom(8))
    outcome = run.run(KILLS, seed, RANKS)
    made = "\n".join(map(run.describe, outcome.kills))
    assert outcome.faults() == [], f"seed {seed}\n{made}\n{outcome.log}"
    assert len(outcome.kills) == KILLS
