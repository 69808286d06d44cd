"""The example of docs/usage.md for objects that are no tensors runs as it is printed."""

import re
from pathlib import Path

import tf_adasum as adasum

USAGE = Path(__file__).absolute().parents[2] / "docs" / "usage.md"


def test_objects_go_by_mpi4py(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", USAGE.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = (block for block in blocks if "import MPI" in block)
    exec(example, {})
    rank, ranks = adasum.rank(), range(adasum.size())
    seen = [(r, ["a", "b"]) for r in ranks] if rank == 0 else None
    half = [r for r in ranks if r % 2 == rank % 2]
    assert capsys.readouterr().out == f"{rank} {seen} {list(ranks)} {half}\n"
