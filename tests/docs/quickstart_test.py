"""The notebook of docs/ runs from top to bottom, and shows what its text says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/quickstart.ipynb"
LIMIT_SECONDS = 200


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The outputs of all cells, the printed text and the number of pictures."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        # The kernel is another process: it finds what this one can import, and writes in here.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            patch.setenv(name, str(folder))
        client = NotebookClient(notebook, timeout=LIMIT_SECONDS, startup_timeout=LIMIT_SECONDS)
        client.execute(cwd=str(folder))
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    text = "".join(out.text for out in outputs if out.get("name") == "stdout")
    return text, sum("image/png" in out.get("data", {}) for out in outputs)


def test_both_reductions_learn(shown):
    accuracies = dict(re.findall(r"(\w+): test accuracy ([\d.]+)%", shown[0]))
    assert set(accuracies) == {"adasum", "mean"}
    assert np.all(np.array([*accuracies.values()], float) > 90)


def test_it_draws_the_rule_and_the_training(shown):
    assert shown[1] == 2


def test_what_is_stored_was_run_in_order():
    """Readers of the page without a kernel see outputs of this code."""
    cells = [cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert "error" not in {out.output_type for cell in cells for out in cell.outputs}
