"""How long a rank waits for what another one writes."""

from __future__ import annotations

import os

VARIABLE = "TF_ADASUM_TIMEOUT_SECONDS"


def seconds() -> float:
    """Returns what the user has set, else what C++ waits for silent ranks by default."""
    return float(os.environ.get(VARIABLE) or "600")
