"""adasumrun --timeline: one Chrome trace of all ranks."""

import json
import os
import sys

import pytest

from adasumrun import command_line, timeline
from tests import programs

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


@pytest.mark.parametrize("name", ["missing/trace.json", ".", ""])
def test_a_timeline_that_cannot_be_written_is_refused(tmp_path, name, capsys):
    path = os.path.join(tmp_path, name) if name else name
    with pytest.raises(SystemExit):
        command_line.parse([f"--timeline={path}", "sh"])
    said = "expected a file in a folder that is there and can be written. Received: "
    assert capsys.readouterr().err.endswith(f"{said}{path!r}\n")


ENCODED = """
import tensorflow as tf, tf_adasum as adasum
for _ in range(2):
    adasum.allreduce(tf.ones([64000]), name="signs", compression=adasum.compression.Sign())
"""


@pytest.mark.long
def test_a_trace_has_bytes_before_and_after(tmp_path):
    trace = tmp_path / "trace.json"
    ranks = [*programs.ADASUMRUN, "-np", "2", f"--timeline={trace}"]
    done = programs.run([*ranks, sys.executable, "-c", ENCODED], 100)
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in range(2):
        args = [e["args"] for e in events if e["pid"] == rank and e["name"] == "encode"]
        # The tensor part by part, then this rank's part of the result; a code is rounded up to 8.
        sizes = [(each["bytes"], each["encoded_bytes"]) for each in args]
        assert sizes == [(128_000, 4_008)] * 3 * 2
    assert "1.54 MB were encoded in 0.0481 MB, all ranks together" in done.stderr


# A kernel of a tf.function has the group for as long as the process lives.
FIT = """
import keras, numpy as np, tf_adasum as adasum
strategy = adasum.AdasumStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")])
    model.compile(optimizer=adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
model.fit(np.ones((64, 4)), np.zeros((64, 2)), batch_size=32, verbose=0)
"""


def test_fit_leaves_a_trace(tmp_path):
    """Under a name that would be a pattern, too."""
    trace = tmp_path / "tr[1].json"
    ranks = [*programs.ADASUMRUN, "-np", "2", f"--timeline={trace}"]
    done = programs.run([*ranks, sys.executable, "-c", FIT], 100)
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in range(2):
        names = [e["name"] for e in events if e["pid"] == rank and e["ph"] == "X"]
        queued = {name for name in names if name.startswith("queue: ")}
        assert any("dense" in name for name in queued), queued
        assert {name.removeprefix("queue: ") for name in queued} <= set(names)
    assert [path.name for path in tmp_path.iterdir()] == ["tr[1].json"]


KILLED = """
import os, signal, time
import tensorflow as tf, tf_adasum as adasum
begin = time.monotonic()
while adasum.rank() == 0 or time.monotonic() < begin + 3:
    adasum.allreduce(tf.ones([5000]), name="step")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_killed_ranks_leave_what_they_had(tmp_path):
    trace = tmp_path / "trace.json"
    ranks = [*programs.ADASUMRUN, "-np", "2", f"--timeline={trace}"]
    done = programs.run([*ranks, sys.executable, "-c", KILLED], 100)
    assert done.returncode in programs.KILLED, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in range(2):
        assert any(e["pid"] == rank and e["name"] == "step" for e in events)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


HEADER = '{"traceEvents":[\n'
# Of what ranks leave: rank 0's disk was full from the start.
WRITE = f"""
rank={programs.RANK}
[ $rank = 0 ] || text='{{"traceEvents": [{{"name": "mine"}}]}}'
printf "$text" >"$TF_ADASUM_TIMELINE.rank$rank.0"
"""


def _shell_ranks(trace, write=WRITE):
    ranks = [*programs.ADASUMRUN, "-np", "2", f"--timeline={trace}", "sh", "-c", write]
    return programs.run(ranks, 100)


def test_a_trace_is_of_this_job_alone(tmp_path):
    """An earlier one, of more ranks, was killed together with its launcher."""
    trace = tmp_path / "trace.json"
    (tmp_path / "trace.json.rank7.0").write_text(HEADER + '{"name": "of a dead job"}\n')
    (tmp_path / "trace.json.ranking").write_text("the user's")
    done = _shell_ranks(trace)
    assert done.returncode == 0, done.stderr
    assert json.loads(trace.read_text()) == {"traceEvents": [{"name": "mine"}]}
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["trace.json", "trace.json.ranking"]


def test_a_trace_that_cannot_be_written_does_not_change_the_exit_code(tmp_path):
    trace = tmp_path / "trace.json"
    done = _shell_ranks(trace, 'mkdir -p "$TF_ADASUM_TIMELINE"; ' + WRITE)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"adasumrun: expected to write the timeline {trace}. Received: ")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["trace.json", "trace.json.rank0.0", "trace.json.rank1.0"]


def test_a_part_may_end_anywhere(tmp_path):
    """Where the disk was full; only what has no header is no part."""
    events = [{"ph": "M"}, {"name": "größer"}]
    lines = [f"{sign}{json.dumps(each, ensure_ascii=False)}\n" for sign, each in zip(" ,", events)]
    text = (HEADER + "".join(lines)).encode()
    part = tmp_path / "trace.json.rank0.0"
    for size in range(len(text) + 1):
        part.write_bytes(text[:size])
        if size < len(HEADER):
            with pytest.raises(json.JSONDecodeError):
                timeline.read(part)
        else:
            whole = text[len(HEADER) : size].count(b"\n")
            assert timeline.read(part) == events[:whole]


def test_another_json_file_is_no_part(tmp_path):
    part = tmp_path / "trace.json.rank0.0"
    for text in ("[]", '{"steps": 3}'):
        part.write_text(text)
        with pytest.raises(ValueError, match="another JSON file"):
            timeline.read(part)


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
