"""One worker against many: the table and the plot of `experiments claim` and of the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from tabulate import tabulate

from models.digits.results import COLORS, label

MARGIN = 0.015


def target(runs: Sequence[dict[str, Any]]) -> float:
    """1.5 points less than one worker's best accuracy: the median over its seeds.

    Args:
        runs: what `experiments.claim.run` or `.train.train` returns, one worker's among them.

    Raises:
        ValueError: there is no run of one worker.
    """
    best = [max(run["accuracies"]) for run in runs if run["workers"] == 1]
    if not best:
        raise ValueError("expected a run of one worker, which sets the target. Received: none.")
    return median(best) - MARGIN


def epochs_to(run: dict[str, Any], accuracy: float) -> int | None:
    """The first epoch, counted from 1, whose test accuracy is at least `accuracy`."""
    for epoch, reached in enumerate(run["accuracies"], start=1):
        if reached >= accuracy:
            return epoch
    return None


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Markdown: epochs to the target and accuracies, as median [min .. max] of several seeds.

    Args:
        runs: what `experiments.claim.run` or `.train.train` returns, one worker's among them.

    Returns:
        A table with a line for each number of workers and reduction.
    """
    wanted = target(runs)
    reach = f"epochs to {wanted:.1%}"
    headers = ("workers", "reduction", reach, "best accuracy", "final accuracy")
    rows = []
    for (workers, reduction), group in _groups(runs).items():
        row = (
            str(workers),
            label(reduction),
            _epochs([epochs_to(run, wanted) for run in group], len(group[0]["accuracies"])),
            _percent([max(run["accuracies"]) for run in group]),
            _percent([run["accuracies"][-1] for run in group]),
        )
        rows.append(row)
    return tabulate(rows, headers, "github", disable_numparse=True)


def _groups(runs: Sequence[dict[str, Any]]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["workers"], run["reduction"]), []).append(run)
    return groups


def _epochs(reached: Sequence[int | None], limit: int) -> str:
    """Runs that never reached the target count as the longest."""
    in_order = sorted(limit + 1 if epochs is None else epochs for epochs in reached)
    middle, least, most = (
        f"> {limit}" if epochs > limit else f"{epochs:g}"
        for epochs in (median(in_order), in_order[0], in_order[-1])
    )
    return middle if least == most else f"{middle} [{least} .. {most}]"


def _percent(accuracies: Sequence[float]) -> str:
    middle = f"{median(accuracies):.1%}"
    if len(accuracies) == 1:
        return middle
    return f"{middle} [{min(accuracies):.1%} .. {max(accuracies):.1%}]"


def plot(runs: Sequence[dict[str, Any]], path: str) -> None:
    """Draws test errors over epochs: one panel for each number of workers beyond one.

    Lines are medians over the seeds, the shades their ranges.

    Args:
        runs: what `experiments.claim.run` or `.train.train` returns, one worker's among them.
        path: PNG file to write; none is written if there is one worker only.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = _groups(runs)
    counts = sorted({workers for workers, _ in groups if workers > 1})
    if not counts:
        return
    figure = Figure(figsize=(5 * len(counts), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for axes, count in zip(panels, counts):
        for (workers, reduction), group in groups.items():
            if workers in (1, count):
                _draw(axes, reduction, group)
                _mark_epoch(axes, reduction, group, target(runs))
        axes.axhline(1 - target(runs), color="0.4", linewidth=1, linestyle=":", label="target")
        axes.set_title(f"{count} workers", loc="left")
        axes.set_xlabel("epoch")
        # Logarithmic, because all that train well end within few points of each other.
        axes.set_yscale("log")
        axes.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], minor=False)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.yaxis.set_minor_formatter("")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    panels[0].set_ylabel("test error")
    panels[0].legend(frameon=False, loc="best")
    rate = runs[0]["learning_rate"]
    figure.suptitle(f"Digits, learning rate {rate:g} for all", fontsize="medium")
    figure.savefig(path, dpi=150)


def _draw(axes, reduction: str, group: Sequence[dict[str, Any]]) -> None:
    by_epoch = [
        [1 - accuracy for accuracy in accuracies]
        for accuracies in zip(*(run["accuracies"] for run in group))
    ]
    epochs = range(1, len(by_epoch) + 1)
    color = COLORS[reduction]
    style = {"color": color, "linestyle": "--" if reduction == "none" else "-"}
    axes.plot(epochs, [median(values) for values in by_epoch], label=label(reduction), **style)
    low, high = [min(values) for values in by_epoch], [max(values) for values in by_epoch]
    axes.fill_between(epochs, low, high, color=color, alpha=0.15, linewidth=0)


def _mark_epoch(axes, reduction: str, group: Sequence[dict[str, Any]], wanted: float) -> None:
    """Marks the epoch, a median as in the table, that reaches the target; nothing if none does."""
    reached = [epochs_to(run, wanted) for run in group]
    epoch = median(math.inf if one is None else one for one in reached)
    if epoch < math.inf:
        color = COLORS[reduction]
        axes.plot([epoch], [1 - wanted], "o", color=color, markersize=5)
        axes.annotate(
            f"{epoch:g}",
            (epoch, 1 - wanted),
            xytext=(3, 4),
            textcoords="offset points",
            color=color,
            fontweight="bold",
        )
