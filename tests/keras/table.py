"""Runs the table of Keras features on all its columns and writes docs/keras.md.

python -m tests.keras.table                # minutes
python -m tests.keras.table --folder=DIR   # keeps the ranks' logs and the cells in DIR
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import programs
from tests.keras import rows
from tests.keras.registry import COLUMNS, ROWS
from tests.keras.rendering import NOT_RUN, render

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "keras.md"
LIMIT_SECONDS = 3000
assert rows.SUBJECTS  # importing them registers the rows


def main(arguments: list[str] | None = None) -> int:
    """Makes the document anew; returns 1, and leaves it alone, if a cell failed or is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where logs and cells go; default: away")
    parser.add_argument("--merge", action="store_true", help="only merge the cells in --folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="keras_table_") as scratch:
        folder = options.folder or Path(scratch)
        if not options.merge:
            for processes in sorted({processes for processes, _ in COLUMNS}):
                _launch(processes, folder / f"ranks{processes}")
        cells = merged(sorted(folder.glob("**/cells_*.jsonl")))
    wrong = [line for line in problems(cells) if not (options.merge and NOT_RUN in line)]
    if wrong:
        print("keras table: " + "\nkeras table: ".join(wrong), file=sys.stderr)
        return 1
    DOCUMENT.write_text(render(ROWS.values(), cells))
    return 0


def merged(paths: list[Path]) -> dict[tuple[str, str], str]:
    """What the cells of all columns say, by row and column; of a cell that ran twice the last."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return {(line["row"], line["column"]): line["cell"] for line in lines}


def problems(cells: dict[tuple[str, str], str]) -> list[str]:
    """One line for each cell that is not there or is not what its row expects."""
    found = []
    for row in ROWS.values():
        for processes, local in COLUMNS:
            cell = cells.get((row.name, f"{processes},{local}"), NOT_RUN)
            if cell != row.cell:
                found.append(f"{row.name} at ({processes},{local}): {cell}, not {row.cell}")
    return found


def _launch(processes: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lean = ROOT / "tests" / "runner" / "lean"
    search = os.pathsep.join([str(ROOT), str(lean), *filter(None, sys.path)])
    command = [
        *programs.ADASUMRUN,
        f"--timeout={LIMIT_SECONDS}",
        *("-np", str(processes)),
        *(sys.executable, "tests/runner/run_mpi_pytest.py", f"--folder={folder}"),
        "tests/keras/columns_test.py",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": search,
        "TEST_UNDECLARED_OUTPUTS_DIR": str(folder),
    }
    print(f"keras table: {processes} processes, {len(ROWS)} rows; {folder}/rank0.log", flush=True)
    subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=LIMIT_SECONDS + 60)


if __name__ == "__main__":
    sys.exit(main())
