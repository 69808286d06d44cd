"""The scripts of docs/horovod.md run as printed, on two real ranks; its names say what is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tf_adasum as adasum
from tests import programs
from tf_adasum import horovod_names

TEXT = (Path(__file__).resolve().parents[2] / "docs/horovod.md").read_text()
SCRIPTS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
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


@pytest.mark.parametrize("script", SCRIPTS, ids=["fit", "tape"])
def test_script_runs_on_two_ranks(script, tmp_path):
    (tmp_path / "train.py").write_text(script)
    command = [*programs.ADASUMRUN, "-np", "2", str(tmp_path / "train.py")]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(value) for value in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0] / 4
    first, second = re.findall(r"weights (\S+)", done.stdout)
    assert first == second


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
