"""Objects that stand in for a module where Keras looks it up."""

from __future__ import annotations

import types
from typing import Any


class StandIn:
    """A module as another module sees it, with some names of its own.

    Example:
        >>> import math
        >>> almost = StandIn(math, pi=3)
        >>> almost.pi, almost.sqrt(4.0)
        (3, 2.0)
    """

    def __init__(self, module: types.ModuleType, **names: Any):
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name == "_module":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._module, name)
