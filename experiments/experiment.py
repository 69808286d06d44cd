"""What an experiment is, and how its runs are made one by one, kept, and made no second time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.digits.results import without_nan

Run = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One claim, and the runs that test it.

    Args:
        name: on the command line, and of the files.
        about: one line for `--help`.
        wanted: given the runs that there are, returns the settings of further ones; called until
            it returns none, since what is judged may depend on what was chosen before. A setting
            is a value that JSON can hold.
        run: makes a run of these settings; returns what it found.
        report: the tables, in Markdown, of all runs.
        plot: draws all runs to this PNG file.
    """

    name: str
    about: str
    wanted: Callable[[list[Run]], Iterable[dict[str, Any]]]
    run: Callable[[dict[str, Any]], dict[str, Any]]
    report: Callable[[list[Run]], str]
    plot: Callable[[list[Run], str], None]


def one_by_one(
    experiment: Experiment, settings: Iterable[Run], deadline: float
) -> Iterator[tuple[Run, Run]]:
    """Yields settings and what was found; no run begins after the deadline."""
    for setting in settings:
        if time.monotonic() > deadline:
            return
        yield setting, experiment.run(setting)


def carry_out(
    experiment: Experiment,
    folder: str,
    deadline: float = float("inf"),
    make: Callable[..., Iterable[tuple[Run, Run]]] = one_by_one,
) -> bool:
    """Makes the runs that are missing, then the report and the plot.

    A run is one line of `<name>.jsonl` in the folder, its settings and what it found. It is written
    as soon as it is there, so that a second call goes on where the first was ended.

    Args:
        experiment: whose runs.
        folder: where `<name>.jsonl`, `<name>.md` and `<name>.png` are or will be.
        deadline: on time.monotonic(); no run begins later.
        make: makes the runs: `one_by_one`, or a `processes.Processes`.

    Returns:
        Whether all runs are made. If not there is no report.
    """
    os.makedirs(folder, exist_ok=True)
    path = Path(folder) / f"{experiment.name}.jsonl"
    runs = _read(path)
    while settings := _missing(experiment.wanted(runs), runs):
        if time.monotonic() > deadline:
            return False
        made = make(experiment, settings, deadline)
        progress = {"desc": experiment.name, "unit": "run", "ncols": 79}
        for setting, found in tqdm(made, total=len(settings), **progress):
            runs.append({**setting, **without_nan(found)})
            _append(path, runs[-1])
    path.with_suffix(".md").write_text(experiment.report(runs) + "\n", encoding="utf-8")
    experiment.plot(runs, str(path.with_suffix(".png")))
    return True


def select(runs: Iterable[Run], **settings: Any) -> list[Run]:
    """The runs with these values."""
    return [run for run in runs if settings.items() <= run.items()]


def _missing(wanted: Iterable[dict[str, Any]], runs: list[Run]) -> list[dict[str, Any]]:
    return [setting for setting in wanted if not select(runs, **setting)]


def _read(path: Path) -> list[Run]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A process that was killed may have left half a line.
    whole = [line for line in lines if line.endswith("\n")]
    if whole != lines:
        path.write_text("".join(whole), encoding="utf-8")
    return [json.loads(line) for line in whole]


def _append(path: Path, run: Run) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")
