"""What `advise` returns: its numbers, a table and a plot of them."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from adasumrun.lines import counted
from tf_adasum.advise.gradients import GradientStatistics
from tf_adasum.advise.step_cost import Measured


class Row(NamedTuple):
    """Predicted for one number of ranks.

    Attributes:
        ranks: N.
        step_seconds: of a step in which every rank takes its own batch.
        reduction_seconds: of the reduction in it, by itself.
        exposed_seconds: of that, what computation does not hide.
        efficiency: examples per second and rank, over those of one rank: step(1) / step(N).
        overhead: R, the overhead of N ranks over one rank's computation: step(N) / step(1) - 1.
        efficiency_of_fixed_batch: (1 + R) / (1 + N R), if N ranks share what is one's batch now.
        wasted_epochs: what averaging wastes for each epoch of one rank; NaN if not known.
        orthogonality: |Adasum|^2 / sum |g_i|^2; NaN if not known.
        is_measured: whether orthogonality was, and not only predicted from the noise.
        gain: how far Adasum goes along the gradient, in steps of one rank; NaN if not known.
        reduction: "adasum", "mean", "either", or "?" if not known.
        batch: examples of a rank's step at which the ranks are busy enough.
        rate: what to multiply one rank's rate by, with Adasum.
    """

    ranks: int
    step_seconds: float
    reduction_seconds: float
    exposed_seconds: float
    efficiency: float
    overhead: float
    efficiency_of_fixed_batch: float
    wasted_epochs: float
    orthogonality: float
    is_measured: bool
    gain: float
    reduction: str
    batch: int
    rate: str


_COLUMNS = (
    ("ranks", lambda row: f"{row.ranks:,}"),
    ("step ms", lambda row: _milliseconds(row.step_seconds)),
    ("reduction", lambda row: _milliseconds(row.reduction_seconds)),
    ("exposed", lambda row: _milliseconds(row.exposed_seconds)),
    ("efficiency", lambda row: f"{row.efficiency:.2f}"),
    ("R", lambda row: f"{row.overhead:.3g}"),
    ("(1+R)/(1+NR)", lambda row: f"{row.efficiency_of_fixed_batch:.2f}"),
    ("mean wastes", lambda row: _number(row.wasted_epochs)),
    ("orthogonality", lambda row: "~" * (not row.is_measured) + _number(row.orthogonality)),
    ("adasum's step", lambda row: _number(row.gain)),
    ("use", lambda row: row.reduction),
    ("batch", lambda row: f"{row.batch:,}"),
    ("rate", lambda row: row.rate),
)


@dataclasses.dataclass(frozen=True)
class Advice:
    """What was measured, and what follows for more ranks; `print` shows it as a table.

    Attributes:
        rows: a `Row` for each number of ranks.
        measured: times of steps and reductions on the ranks that are there.
        gradients: noise and orthogonality; None if they could not be measured.
        noise_scale: B_noise in examples; infinite where noise hides the gradient, NaN if not known.
        optimizer: its class and mode.
        scale: how many times longer reductions take here than by the library's constants.
        network: Gbit/s of each host, and microseconds of a message there and back.
        ranks_per_host: of the hosts that rows are predicted for.
    """

    rows: list[Row]
    measured: Measured
    gradients: GradientStatistics | None
    optimizer: str
    scale: float
    network: tuple[float, float]
    ranks_per_host: int

    @property
    def noise_scale(self) -> float:
        """B_noise of all variables."""
        return math.nan if self.gradients is None else self.gradients.noise.scale

    def __str__(self) -> str:
        cells = [[title for title, _ in _COLUMNS]]
        cells += [[write(row) for _, write in _COLUMNS] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*self._said(), "", *lines])

    def plot(self, path: str) -> None:
        """Draws step time, efficiency and what averaging wastes over the ranks.

        Args:
            path: of a PNG, or what else matplotlib makes of its ending.

        Raises:
            ImportError: there is no matplotlib.
        """
        from tf_adasum.advise.plot import draw

        draw(self, path)

    def _said(self) -> list[str]:
        measured = self.measured
        said = [
            f"adasum.advise: {sum(measured.sizes):,} parameters in {len(measured.sizes)} "
            f"variables, {measured.num_bytes / 2**20:,.1f} MiB; {measured.batch:,} examples a "
            f"rank; {self.optimizer}",
            f"  measured on {counted(measured.ranks, 'rank')} of {counted(measured.hosts, 'host')} "
            f"with {counted(measured.cores, 'core')}",
            f"  step without exchange  {_milliseconds(measured.alone_seconds)} ms, forward "
            f"{_milliseconds(measured.forward_seconds)}, of processors "
            f"{_milliseconds(measured.cpu_seconds)}; "
            f"input {_milliseconds(measured.input_seconds)} ms a batch",
        ]
        if measured.together_seconds is not None:
            seconds = _milliseconds(measured.together_seconds)
            said.append(f"  step with exchange     {seconds} ms")
        if measured.reduction_seconds is not None:
            seconds = _milliseconds(measured.reduction_seconds)
            said.append(f"  reduction by itself    {seconds} ms, constants x {self.scale:.2f}")
        else:
            seconds = _milliseconds(measured.copy_seconds)
            said.append(f"  copy of all variables  {seconds} ms, constants x {self.scale:.2f}")
        return said + self._said_of_gradients() + self._said_of_network()

    def _said_of_gradients(self) -> list[str]:
        if self.gradients is None:
            return [
                "  noise scale            not known: the steps hand no gradients to "
                "model.optimizer, or there are too few examples"
            ]
        scales = self.gradients.scale_by_batch
        of_batches = ", ".join(f"{size}: {_number(scale)}" for size, scale in scales.items())
        scale = _number(self.noise_scale)
        lines = [f"  noise scale            {scale} examples; by batch {of_batches}"]
        for size, found in self.gradients.orthogonality.items():
            values = ", ".join(f"{number}: {value:.2f}" for number, value in found.items())
            lines.append(f"  orthogonality          of N batches of {size}, {values}")
        return lines

    def _said_of_network(self) -> list[str]:
        gbits, round_us = self.network
        how = "measured" if self.measured.hosts > 1 else "assumed"
        return [
            f"  predicted for {counted(self.ranks_per_host, 'rank')} and "
            f"{counted(self.measured.cores, 'core')} a host, {gbits:.3g} Gbit/s and "
            f"{round_us:.3g} us between hosts ({how})"
        ]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "very large"
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
