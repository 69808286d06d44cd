"""adasumrun advise: a script as it is, on two real ranks, and what is said where there is none."""

import doctest
import re
import sys

import keras
import numpy as np
import pytest
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

import tf_adasum as adasum
from tests import programs
from tf_adasum.advise import __main__ as program
from tf_adasum.advise import advise as module
from tf_adasum.advise.plot import figure_of

LIMIT_SECONDS = 200
SCRIPT = """
import sys, keras, numpy as np, tf_adasum as adasum

def main():
    assert sys.argv[1:] == ["--epochs=3"], sys.argv
    strategy = adasum.AdasumStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(2)])
        model.compile(adasum.wrap(keras.optimizers.SGD(0.1)), "mse")
    x = np.ones((64, 4), np.float32)
    model.fit(x, y=x[:, :2], batch_size=16, epochs=3)
    print("after fit")

if __name__ == "__main__":
    main()
"""


@pytest.mark.long
def test_script_on_two_ranks(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [*programs.ADASUMRUN, "advise", "-np", "2", f"--plot={tmp_path / 'advice.png'}"]
    command += ["--ranks-per-host=4", "--gbits=10"]
    command += [sys.executable, str(tmp_path / "train.py"), "--epochs=3"]
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after fit" not in done.stdout
    assert done.stdout.count("adasum.advise: 58 parameters in 4 variables") == 1
    assert "measured on 2 ranks of 1 host" in done.stdout
    assert "predicted for 4 ranks and " in done.stdout
    assert "10 Gbit/s" in done.stdout
    rows = re.findall(r"^ *([\d,]+)  .* x1$", done.stdout, re.MULTILINE)
    assert rows == [f"{2**level:,}" for level in range(11)]
    assert (tmp_path / "advice.png").stat().st_size > 10_000


@pytest.fixture
def own_process(monkeypatch):
    """Undoes what a run in this process changes."""
    monkeypatch.setattr(TensorFlowTrainer, "fit", TensorFlowTrainer.fit)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))


MODULE = """
import os, sys
from package import other
assert __name__ == "__main__" and __package__ == "package"
assert sys.argv == [__file__, "--epochs=3", "-m"], sys.argv
assert sys.path[0] == os.getcwd() and sys.modules["__main__"].other is other
"""


def test_a_module_is_run_as_python_runs_it(tmp_path, capsys, monkeypatch, own_process):
    (tmp_path / "package").mkdir()
    for name, text in {"__init__": "", "other": "", "train": MODULE}.items():
        (tmp_path / "package" / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    sys.path.insert(0, str(tmp_path))
    command = [sys.executable, "-m", "package.train", "--epochs=3", "-m"]
    assert programs.run(command, LIMIT_SECONDS).returncode == 0
    assert program.main(command[1:]) == 1
    assert "Expected a script that calls fit of a Keras model." in capsys.readouterr().err
    for name in ("package.none", "nowhere.train"):
        assert program.main(["-m", name]) == 1
        said = f"Expected a training module. Received: {name}, no module.\n"
        assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("option", ["--gbits=0", "--round-us=nan", "--ranks-per-host=0"])
def test_rates_are_refused_before_the_script_runs(tmp_path, capsys, own_process, option):
    (tmp_path / "train.py").write_text("print('started')")
    assert program.main([option, str(tmp_path / "train.py")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    key = option.strip("-").partition("=")[0].replace("-", "_").replace("ranks_per_host", "ranks")
    assert f"Expected hosts['{key}'] to be " in line


def test_a_plot_that_cannot_be_written_is_refused_before(tmp_path, capsys, own_process):
    (tmp_path / "train.py").write_text("print('started')")
    plot = tmp_path / "missing" / "plot.png"
    assert program.main([f"--plot={plot}", str(tmp_path / "train.py")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith(f"can be written. Received: {str(plot)!r}\n")


def test_a_plot_without_matplotlib_is_refused_before(tmp_path, capsys, monkeypatch, own_process):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "train.py").write_text("print('started')")
    assert program.main([f"--plot={tmp_path / 'plot.png'}", str(tmp_path / "train.py")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("for a plot. Received: none. Run: pip install matplotlib\n")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("print(1)", "Expected a script that calls fit of a Keras model."),
        (None, "Expected a training script."),
        (
            "import keras\nm = keras.Sequential([keras.layers.Dense(1)])\nm.fit([[1.0]], [1.0])",
            "rank 0: Expected a compiled model.",
        ),
    ],
)
def test_refusals_are_one_sentence(tmp_path, capsys, own_process, script, said):
    path = tmp_path / "script.py"
    if script is not None:
        path.write_text(script)
    try:
        code = program.main([str(path)])
    except SystemExit as end:
        code = end.code
    assert code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"adasumrun advise: {said} Received: ")


def test_without_a_strategy_and_with_a_step_that_applies_nothing(tmp_path):
    """A script that is not distributed yet; and a train_step with an optimizer of its own."""

    class Other(keras.Sequential):
        def train_step(self, data):
            return {"loss": keras.ops.mean(self(keras.tree.flatten(data)[0]))}

    x = np.random.default_rng(3).standard_normal((128, 6)).astype(np.float32)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(), "mse")
    asked = {"ranks": [4], "batch_size": 16, "budget_seconds": 0.1}
    advice = adasum.advise(model, x, y=x[:, :1], **asked)
    assert advice.measured.batch == 16
    assert advice.optimizer == "Adam, not wrapped"
    assert advice.noise_scale > 0
    step, reduction = figure_of(advice).axes[0].lines
    assert list(step.get_xdata()) == list(reduction.get_xdata()) == [4]
    advice.plot(tmp_path / "advice.png")
    assert (tmp_path / "advice.png").read_bytes().startswith(b"\x89PNG")
    other = Other([keras.Input((6,)), keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    advice = adasum.advise(other, x, **asked)
    assert advice.gradients is None
    assert advice.rows[0].reduction == "?"
    assert "not known" in str(advice)


def test_example():
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
