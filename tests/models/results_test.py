"""Tables, JSON and plots of given runs."""

from __future__ import annotations

import json
import math

import pytest

from models.digits import claim_report, results


def trained(reduction, accuracy, loss=0.5):
    points = [(0, 0.25, 0.1), (100, 0.75, accuracy)]
    return {
        "reduction": reduction,
        "workers": 4,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "accuracy": accuracy,
        "loss": loss,
        "seconds": 12.34,
        "curve": [dict(zip(("step", "orthogonality", "accuracy"), point)) for point in points],
    }


def measured(workers, reduction, accuracies):
    names = ("workers", "reduction", "optimizer", "learning_rate", "accuracies")
    return dict(zip(names, (workers, reduction, "sgd", 0.1, accuracies)))


CLAIM = [
    measured(1, "none", [0.90, 0.98, 0.97]),
    measured(1, "none", [0.95, 0.96, 0.96]),
    measured(1, "none", [0.95, 1.00, 0.99]),
    measured(8, "adasum", [0.10, 0.97, 0.98]),
    measured(8, "adasum", [0.10, 0.20, 0.965]),
    measured(8, "adasum", [0.97, 0.20, 0.30]),
    measured(8, "mean", [0.10, 0.20, 0.30]),
]


def test_table_of_training():
    rows = results.table([trained("mean", 0.9), trained("sum", 0.1, math.nan)]).splitlines()
    assert len({len(row) for row in rows}) == 1, "columns are aligned"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[0][0] == "reduction" and set(cells[1][0]) == {"-"}
    assert cells[2] == ["mean", "90.0%", "0.5", "12.3", "0.25", "0.75"]
    assert cells[3] == ["sum", "10.0%", "nan", "12.3", "0.25", "0.75"]


def test_orthogonality_may_be_left_out(tmp_path):
    run = trained("mean", 0.9)
    for point in run["curve"]:
        del point["orthogonality"]
    cells = [cell.strip() for cell in results.table([run]).splitlines()[2].strip("|").split("|")]
    assert cells[3:] == ["12.3", "-", "-"]
    results.plot([run], str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").exists()


def test_diverged_loss_becomes_null_in_json():
    runs = results.without_nan([trained("sum", 0.1, math.nan), trained("mean", 0.9)])
    read = json.loads(json.dumps(runs, allow_nan=False))
    assert read[0]["loss"] is None and read[1]["loss"] == 0.5
    assert read[0]["curve"] == trained("sum", 0.1)["curve"]


def test_target_is_below_the_median_of_the_best_epochs():
    assert claim_report.target(CLAIM) == pytest.approx(0.98 - 0.015)
    with pytest.raises(ValueError, match="one worker"):
        claim_report.target(CLAIM[3:])


def test_table_of_the_claim():
    rows = claim_report.table(CLAIM).splitlines()
    assert len({len(row) for row in rows}) == 1, "columns are aligned"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    assert "96.5%" in rows[0]
    assert cells[0][:3] == ["1", "one worker", "2 [2 .. > 3]"]
    assert cells[1] == [
        "8",
        "Adasum",
        "2 [1 .. 3]",
        "97.0% [96.5% .. 98.0%]",
        "96.5% [30.0% .. 98.0%]",
    ]
    assert cells[2] == ["8", "mean", "> 3", "30.0%", "30.0%"]


def test_plots_are_png_files(tmp_path):
    runs = [trained(reduction, 0.9) for reduction in ("mean", "sum", "adasum")]
    for draw, what in ((results.plot, runs), (claim_report.plot, CLAIM)):
        path = tmp_path / "plot.png"
        draw(what, str(path))
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        path.unlink()


def test_one_worker_alone_has_a_table_and_no_plot(tmp_path):
    path = tmp_path / "plot.png"
    claim_report.plot(CLAIM[:3], str(path))
    assert not path.exists()
    assert len(claim_report.table(CLAIM[:3]).splitlines()) == 3
