"""Panels that look alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

from models.digits.results import COLORS, label

# Panels beside each other.
_MOST_COLUMNS = 3


def save(path: str, titles: list[str], draw: Callable, width: float = 5) -> None:
    """Draws one panel for each title, at most three beside each other.

    Args:
        path: PNG file to write.
        titles: of the panels.
        draw: called as draw(axes, index) for each panel.
        width: of a panel, in inches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = math.ceil(len(titles) / _MOST_COLUMNS)
    columns = math.ceil(len(titles) / rows)
    figure = Figure(figsize=(width * columns, 4.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for index in range(len(titles)):
        axes = figure.add_subplot(rows, columns, index + 1)
        axes.set_title(titles[index], loc="left", fontsize="medium")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, index)
    figure.savefig(path, dpi=150)


def spread(axes, reduction: str, points: dict[float, list[float]]) -> None:
    """A line through the medians of several seeds, and a band from the least to the most."""
    x = sorted(points)
    color = COLORS[reduction]
    least, most = ([end(points[i]) for i in x] for end in (min, max))
    axes.fill_between(x, least, most, color=color, alpha=0.15)
    medians = [median(points[i]) for i in x]
    axes.plot(x, medians, color=color, marker="o", markersize=3, label=label(reduction))


def percent(values: list[float]) -> str:
    """The median [least .. most] of several seeds, in percent."""
    return f"{100 * median(values):.1f} [{100 * min(values):.1f} .. {100 * max(values):.1f}]"
