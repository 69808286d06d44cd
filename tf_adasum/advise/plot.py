"""Draws an `Advice`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tf_adasum.advise.advice import Advice


def check_matplotlib() -> None:
    """Raises ImportError where there is no matplotlib, without importing it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError(
            "Expected matplotlib for a plot. Received: none. Run: pip install matplotlib"
        )


def draw(advice: Advice, path: str) -> None:
    """As `Advice.plot`."""
    figure_of(advice).savefig(path, dpi=150)


def figure_of(advice: Advice) -> Figure:
    """Returns matplotlib's figure of it; raises ImportError where there is no matplotlib."""
    check_matplotlib()
    from matplotlib.figure import Figure

    ranks = [row.ranks for row in advice.rows]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    times, efficiencies, noise = figure.subplots(1, 3)
    times.loglog(ranks, [1e3 * row.step_seconds for row in advice.rows], "o-", label="step")
    several = [row for row in advice.rows if row.ranks > 1]  # one rank has no reduction
    reductions = [max(1e3 * row.reduction_seconds, 1e-6) for row in several]
    times.loglog([row.ranks for row in several], reductions, "s--", label="its reduction")
    times.set(title="milliseconds")
    efficiencies.semilogx(
        ranks, [row.efficiency for row in advice.rows], "o-", label="a batch each"
    )
    fixed = [row.efficiency_of_fixed_batch for row in advice.rows]
    efficiencies.semilogx(ranks, fixed, "s--", label="one batch shared")
    efficiencies.set(title="efficiency", ylim=(0, 1.05))
    wasted = [1 + row.wasted_epochs for row in advice.rows]
    noise.loglog(ranks, wasted, "o-", label="epochs by the mean, for one")
    noise.loglog(
        ranks, [row.gain for row in advice.rows], "s--", label="Adasum's step, in steps of one"
    )
    noise.set(title="examples and steps")
    for axes in (times, efficiencies, noise):
        axes.set(xlabel="ranks")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    return figure
