"""Results of training runs: a table, a plot and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_HEADERS = ("reduction", "test accuracy", "loss", "seconds", "orthogonality first", "last")
# Colours that the colour-blind can tell apart.
COLORS = {"adasum": "#0072b2", "mean": "#e69f00", "sum": "#cc3311", "none": "#555555"}
_LABELS = {"adasum": "Adasum", "none": "one worker"}


def label(reduction: str) -> str:
    """What a reduction is called in tables and plots; "none" is one worker's."""
    return _LABELS.get(reduction, reduction)


def table(runs: Sequence[dict[str, Any]]) -> str:
    """One line for each run, with the columns aligned.

    Args:
        runs: what `models.digits.train.train` returns.

    Returns:
        A table in plain text, which is valid Markdown.

    Example:
        >>> print(table([{"reduction": "sum", "accuracy": 0.5, "loss": 1.0, "seconds": 2.0,
        ...               "curve": [{"step": 0, "orthogonality": 0.25, "accuracy": 0.1}]}]))
    """
    rows = [_HEADERS] + [_cells(run) for run in runs]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    curve = run["curve"]
    return (
        run["reduction"],
        f"{run['accuracy']:.1%}",
        f"{run['loss']:.3g}",
        f"{run['seconds']:.1f}",
        f"{curve[0]['orthogonality']:.2f}",
        f"{curve[-1]['orthogonality']:.2f}",
    )


def without_nan(value: Any) -> Any:
    """Returns `value` with None for numbers that JSON cannot hold, such as a diverged loss."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plot(runs: Sequence[dict[str, Any]], path: str) -> None:
    """Draws test accuracy and orthogonality over the steps, one line for each reduction.

    Args:
        runs: what `models.digits.train.train` returns, all with the same number of workers.
        path: PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    accuracy, orthogonality = figure.subplots(1, 2)
    for run in runs:
        _lines(run, accuracy, orthogonality)
    workers = runs[0]["workers"]
    accuracy.set_title("Test accuracy", loc="left")
    accuracy.set_ylim(0, 1.02)
    accuracy.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    orthogonality.set_title("Orthogonality of the workers' gradients", loc="left")
    orthogonality.set_ylim(0, 1.02)
    orthogonality.axhline(1 / workers, color="0.6", linewidth=1, linestyle=":")
    orthogonality.annotate(
        f"all parallel: 1/{workers}",
        (1, 1 / workers),
        xycoords=("axes fraction", "data"),
        xytext=(-4, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        color="0.4",
        fontsize="small",
    )
    for axes in (accuracy, orthogonality):
        axes.set_xlabel("step")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    accuracy.legend(frameon=False, loc="best")
    figure.suptitle(
        f"{workers} workers, {runs[0]['optimizer']}, learning rate {runs[0]['learning_rate']:g}",
        fontsize="medium",
    )
    figure.savefig(path, dpi=150)


def _lines(run: dict[str, Any], accuracy, orthogonality) -> None:
    reduction = run["reduction"]
    steps = [point["step"] for point in run["curve"]]
    style = {"color": COLORS[reduction], "label": label(reduction)}
    style |= {"linewidth": 2, "marker": "o", "markersize": 3}
    accuracy.plot(steps, [point["accuracy"] for point in run["curve"]], **style)
    orthogonality.plot(steps, [point["orthogonality"] for point in run["curve"]], **style)
