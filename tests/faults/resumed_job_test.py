"""Programs that were interrupted, or killed in the midst of a save, and are started again."""

import json
import sys

from tests import programs

LIMIT_SECONDS = 200

PROGRAM = """
import json, os, signal, sys
import keras, numpy as np
import tf_adasum as adasum
from tf_adasum.callbacks.training_file import TrainingWriter

folder, killed = sys.argv[1], sys.argv[2] == "killed"
keras.utils.set_random_seed(3)
strategy = adasum.AdasumStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5)])
    model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
add, finish, saves = TrainingWriter.add, TrainingWriter.finish, []

def add_or_die(self, group, path, value):
    add(self, group, path, value)
    if killed and len(saves) == 2 and "kernel" in path:  # the third save has begun
        os.kill(os.getpid(), signal.SIGKILL)

def count(self, header):
    finish(self, header)
    saves.append(header["batch"])

TrainingWriter.add, TrainingWriter.finish = add_or_die, count
x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
y = np.repeat(np.sin(x), 2, axis=1)
backup = adasum.callbacks.BackupAndRestore(folder, save_freq=4)
history = model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[backup])
weights = [variable.value.values[0].numpy().tolist() for variable in model.variables]
if adasum.rank() == 0:
    print("result", json.dumps([history.epoch, weights]))
"""


def _run(folder, backup, killed=False):
    path = folder / "program.py"
    path.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", "2", "--timeout", "90"]
    return programs.run(
        [*launcher, sys.executable, str(path), str(backup), "killed" if killed else "spared"],
        LIMIT_SECONDS,
        TF_CPP_MIN_LOG_LEVEL="3",
    )


def _result(run):
    assert run.returncode == 0, run.stderr
    (line,) = [line for line in run.stdout.splitlines() if "result " in line]
    return json.loads(line.partition("result ")[2])


def test_a_killed_job_goes_on_where_it_was_saved(tmp_path):
    """Saves follow batches 4, 8 (the second of its epoch) and 12; the third is cut off."""
    epochs, weights = _result(_run(tmp_path, tmp_path / "whole"))
    assert epochs == [0, 1, 2]
    backup = tmp_path / "backup"
    assert _run(tmp_path, backup, killed=True).returncode != 0
    assert sorted(path.name for path in backup.iterdir()) == ["training.h5", "training.h5.partial"]
    resumed = _run(tmp_path, backup)
    assert "goes on with epoch 1, after 2 of its batches" in resumed.stderr + resumed.stdout
    assert _result(resumed) == [[1, 2], weights]


PLAIN = """
import sys
import keras, numpy as np, tf_adasum as adasum

class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == 7:
            raise InterruptedError

def fit(*callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dropout(0.2)])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    make = {"backup": lambda: adasum.callbacks.BackupAndRestore(sys.argv[1], 7), "stop": Stop}
    try:  # the first call of fit is older than the hooks, which the callback brings
        made = model.fit(x, y, 8, 3, verbose=0, callbacks=[make[name]() for name in callbacks])
    except InterruptedError:
        return None
    return made.epoch, made.history["loss"][-2:], [w.tolist() for w in model.get_weights()]

x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
y = np.sin(x)
fit("backup", "stop")
resumed, straight = fit("backup"), fit()
assert resumed[0] == [1, 2] and resumed[1:] == straight[1:], (resumed, straight)
"""


def test_a_process_without_a_strategy_goes_on_too(tmp_path):
    command = [sys.executable, "-c", PLAIN, str(tmp_path / "backup")]
    run = programs.run(command, LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
