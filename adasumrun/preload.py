"""The library that ranks start with, so that their tensors lie in shared memory from the start.

It serves the large blocks of memory that TensorFlow asks for (cc/arena/preload.cc). Ranks get it
through LD_PRELOAD, and take it out of their environment: what they start does not have it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

LIBRARY = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tf_adasum", "_arena.so"
)
_VARIABLE = "LD_PRELOAD"
_SWITCHES = ("TF_ADASUM_ARENA", "TF_ADASUM_SHARED_MEMORY")


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns what has a program preload it; empty where it is switched off or missing.

    Args:
      environment: of the program; what the user preloads is kept, behind it.
    """
    if obstacle(environment) is not None:
        return {}
    others = environment.get(_VARIABLE)
    return {_VARIABLE: f"{LIBRARY}:{others}" if others else LIBRARY}


def obstacle(environment: Mapping[str, str]) -> str | None:
    """Returns why a program does not preload it; None where it does."""
    switch = next((name for name in _SWITCHES if environment.get(name) == "0"), None)
    if switch is not None:
        return f"{switch} is 0"
    # The loader takes both for the end of a path.
    if {" ", ":"} & set(LIBRARY):
        return f"a path with a space or a colon can't be preloaded: {LIBRARY}"
    if not os.path.isfile(LIBRARY):
        return f"there is no file {LIBRARY}"
    return None


def command(environment: Mapping[str, str]) -> list[str]:
    """Returns the program that sets it and becomes the one behind it; empty for none.

    Not in mpirun's own environment: that would preload mpirun and all between it and the ranks.
    """
    settings = [f"{name}={value}" for name, value in variables(environment).items()]
    return ["env", *settings] if settings else []
