"""How long a rank waits for what another one writes: as long as C++ waits for a silent rank."""

from __future__ import annotations

import os

from adasumrun import rank_watch

VARIABLE = rank_watch.SILENCE_VARIABLE


def seconds() -> float:
    """Returns what the user has set, else the default."""
    return rank_watch.silence_seconds(os.environ)
