"""What an optimizer's exchanges keep of their vectors, summed over the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros


class OrthogonalitySums:
    """Sums of |Adasum(x_1, .., x_N)|^2 and |x_1|^2 + .. + |x_N|^2, for each variable.

    They are kept where the step runs, one variable for each list of paths that an exchange has.
    """

    def __init__(self):
        self._sums: dict[tuple[str, ...], tf.Variable] = {}

    def add(self, paths: Sequence[str], norms: tf.Tensor) -> None:
        """Adds what one exchange has measured; as `distribute.asked.Measure`.

        Args:
            paths: of the variables.
            norms: float64 [number of paths, 2].
        """
        key = tuple(paths)
        if key not in self._sums:
            self._sums[key] = make_plain_zeros([len(paths), 2])
        self._sums[key].assign_add(norms)

    def reset(self) -> None:
        """Begins anew."""
        for sums in self._sums.values():
            sums.assign(tf.zeros_like(sums))

    def of_all(self) -> float:
        """Returns the orthogonality of all variables together; NaN if nothing was measured."""
        totals = self._totals().values()
        return _ratio(sum(kept for kept, _ in totals), sum(had for _, had in totals))

    def of_each(self) -> dict[str, float]:
        """Returns the orthogonality of each variable by its path; NaN where nothing was."""
        return {path: _ratio(kept, had) for path, (kept, had) in self._totals().items()}

    def _totals(self) -> dict[str, tuple[float, float]]:
        totals: dict[str, tuple[float, float]] = {}
        for paths, sums in self._sums.items():
            for path, (kept, had) in zip(paths, sums.numpy().tolist()):
                kept_before, had_before = totals.get(path, (0.0, 0.0))
                totals[path] = (kept_before + kept, had_before + had)
        return totals


def _ratio(kept: float, had: float) -> float:
    return kept / had if had != 0 else math.nan
