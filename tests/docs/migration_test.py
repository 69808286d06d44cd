"""The scripts of docs/horovod.md and docs/multi_worker.md run as printed, on two real ranks.

Horovod's names say what is here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tf_adasum as adasum
from tests import programs
from tf_adasum import horovod_names

DOCS = Path(__file__).resolve().parents[2] / "docs"
LIMIT_SECONDS = 200
# Makes no strategy; the second model's step and the third's optimizer could exchange by themselves.
LONE = """
import keras, numpy as np
import tf_adasum

class OwnStep(keras.Model):
    def train_step(self, data):
        return super().train_step(data)

class OwnOptimizer(keras.optimizers.SGD):
    pass

for name, kind, optimizer in (
    ("plain", keras.Model, "sgd"),
    ("own_step", OwnStep, "sgd"),
    ("own_optimizer", keras.Model, OwnOptimizer()),
):
    inputs = keras.Input((3,))
    model = kind(inputs=inputs, outputs=keras.layers.Dense(1)(inputs), name=name)
    model.compile(optimizer, "mse")
    for _ in range(2):
        model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
"""


def _scripts(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def _trained(script, folder, **variables):
    """What two ranks print, whose loss has fallen and whose weights are equal."""
    (folder / "train.py").write_text(script)
    command = [*programs.ADASUMRUN, "-np", "2", str(folder / "train.py")]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(value) for value in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0] / 4
    first, second = re.findall(r"weights (\S+)", done.stdout)
    assert first == second
    return done.stdout


@pytest.mark.parametrize("script", _scripts("horovod.md"), ids=["fit", "tape"])
def test_script_of_horovod_runs(script, tmp_path):
    _trained(script, tmp_path)


def test_script_of_multi_worker_runs_whatever_tf_config_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = {"worker": [f"nowhere{number}:1234" for number in range(3)]}
    left_over = {"cluster": elsewhere, "task": {"type": "worker", "index": 2}}
    (script,) = _scripts("multi_worker.md")
    said = _trained(script, tmp_path, TF_CONFIG=json.dumps(left_over))
    assert sorted(re.findall(r"worker \d of \d", said)) == ["worker 0 of 2", "worker 1 of 2"]
    files = [path.name for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert files == ["model.keras"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_that_train_alone_for_want_of_a_strategy_are_told_once(ranks, tmp_path):
    (tmp_path / "train.py").write_text(LONE)
    command = [*programs.ADASUMRUN, "-np", str(ranks), str(tmp_path / "train.py")]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"fit trains the model '(\w+)' on each rank by itself", done.stderr)
    assert told == (["plain"] if ranks > 1 else [])


@pytest.mark.parametrize(
    ("module", "names"),
    [(adasum, horovod_names.OF_MODULE), (adasum.callbacks, horovod_names.OF_CALLBACKS)],
)
def test_names_of_horovod_say_what_stands_for_them(module, names):
    assert not names.keys() & set(module.__all__)
    for name, here in names.items():
        said = f"'{module.__name__}' has no attribute '{name}'. In place of Horovod's: {here}"
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(module, name)


def test_any_other_name_is_refused_as_python_does():
    assert not hasattr(adasum, "alreduce")
    with pytest.raises(AttributeError, match=r"^module 'tf_adasum' has no attribute 'alreduce'$"):
        adasum.alreduce  # noqa: B018
