"""adasumrun --timeline: one Chrome trace of all ranks."""

import json
import sys

from tests import programs
from tf_adasum import timeline

RANKS = 3
# More than are swapped whole, in messages.
PROGRAM = """
import tensorflow as tf, tf_adasum as adasum
for _ in range(2):
    adasum.allreduce([tf.ones([5000]), tf.ones([3, 5])], name="two tensors")
"""


def test_ranks_leave_one_trace(tmp_path):
    trace = tmp_path / "trace.json"
    ranks = [*programs.ADASUMRUN, "-np", str(RANKS), f"--timeline={trace}"]
    done = programs.run([*ranks, sys.executable, "-c", PROGRAM], 100)
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in range(RANKS):
        spans = [e for e in events if e["pid"] == rank and e["ph"] == "X"]
        assert sum(e["name"] == "two tensors" for e in spans) == 2
        assert sum(e["name"] == "queue: two tensors" for e in spans) == 2
        assert any(e["name"] == "exchange" and "peer" in e["args"] for e in spans)
        assert all(e["dur"] >= 0 for e in spans)
    # On one host every rank combines its third of all, once an allreduce.
    combines = [e for e in events if e["name"] == "combine"]
    assert [sum(e["pid"] == rank for e in combines) for rank in range(RANKS)] == [2, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_merge_keeps_the_parts_if_the_whole_cannot_be_written(tmp_path):
    part = tmp_path / "trace.json.rank0.0"
    part.write_text('{"traceEvents": []}')
    (tmp_path / "trace.json").mkdir()
    try:
        timeline.merge(tmp_path / "trace.json")
    except OSError:
        assert part.exists()
    else:
        raise AssertionError("expected an OSError")
