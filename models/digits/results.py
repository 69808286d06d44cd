"""Results of training runs: a table, a plot and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

_HEADERS = ("reduction", "test accuracy", "loss", "seconds", "orthogonality first", "last")
# Colours that the colour-blind can tell apart.
COLORS = {"adasum": "#0072b2", "mean": "#e69f00", "sum": "#cc3311", "none": "#555555"}
_TITLES = {
    "accuracy": "Test accuracy",
    "orthogonality": "Orthogonality of the workers' gradients",
}
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
    return tabulate([_cells(run) for run in runs], _HEADERS, "github", disable_numparse=True)


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    ends = (run["curve"][0], run["curve"][-1])
    return (
        run["reduction"],
        f"{run['accuracy']:.1%}",
        f"{run['loss']:.3g}",
        f"{run['seconds']:.1f}",
        *(f"{end['orthogonality']:.2f}" if "orthogonality" in end else "-" for end in ends),
    )


def without_nan(value: Any) -> Any:
    """Returns `value` with None for numbers that JSON cannot hold, such as a diverged loss."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plot(runs: Sequence[dict[str, Any]], path: str) -> None:
    """Draws test accuracy over the steps, and orthogonality where all runs have measured it.

    Args:
        runs: what `models.digits.train.train` returns, all with the same number of workers.
        path: PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    quantities = ["accuracy"]
    if all("orthogonality" in run["curve"][0] for run in runs):
        quantities.append("orthogonality")
    figure = Figure(figsize=(5 * len(quantities), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = dict(zip(quantities, figure.subplots(1, len(quantities), squeeze=False)[0]))
    for quantity, axes in panels.items():
        for run in runs:
            _line(axes, run, quantity)
        axes.set_title(_TITLES[quantity], loc="left")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("step")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    panels["accuracy"].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panels["accuracy"].legend(frameon=False, loc="best")
    workers = runs[0]["workers"]
    if "orthogonality" in panels:
        _mark_parallel(panels["orthogonality"], workers)
    figure.suptitle(
        f"{workers} workers, {runs[0]['optimizer']}, learning rate {runs[0]['learning_rate']:g}",
        fontsize="medium",
    )
    figure.savefig(path, dpi=150)


def _line(axes, run: dict[str, Any], quantity: str) -> None:
    steps = [point["step"] for point in run["curve"]]
    values = [point[quantity] for point in run["curve"]]
    reduction = run["reduction"]
    style = {"color": COLORS[reduction], "label": label(reduction)}
    axes.plot(steps, values, linewidth=2, marker="o", markersize=3, **style)


def _mark_parallel(axes, workers: int) -> None:
    """Marks the least orthogonality, that of equal gradients."""
    axes.axhline(1 / workers, color="0.6", linewidth=1, linestyle=":")
    axes.annotate(
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
