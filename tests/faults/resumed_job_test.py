"""Programs that were interrupted, or killed in the midst of a save, and are started again."""

import json
import os
import sys

import pytest

from tests import programs

LIMIT_SECONDS = 250

PROGRAM = """
import json, os, signal, sys, time
import keras, numpy as np
import tf_adasum as adasum
from tf_adasum.callbacks import save_requests
from tf_adasum.callbacks.training_file import TrainingWriter

folder, how = sys.argv[1:]
is_killed = how == "killed" and os.environ["TF_ADASUM_RESTARTS"] == "0"
save_requests._SECONDS_BETWEEN = 0.0  # ranks ask each other after each batch
keras.utils.set_random_seed(3)
strategy = adasum.AdasumStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5)])
    model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
add, finish, saves = TrainingWriter.add, TrainingWriter.finish, []

def add_or_die(self, group, path, value):
    add(self, group, path, value)
    if is_killed and len(saves) == 3 and "kernel" in path:  # a save has begun
        os.kill(os.getpid(), signal.SIGKILL)

def count(self, header):
    finish(self, header)
    saves.append(header["batch"])

class AskLauncher(keras.callbacks.Callback):
    batches = 0
    stops_nothing = True

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if how == "ended" and self.batches == 9 or is_killed and self.batches == 3:
            self.ask(signal.SIGTERM if how == "ended" else signal.SIGUSR1)

    def ask(self, number):
        if adasum.rank() == 1:
            process = os.getppid()
            while b"-m\\0adasumrun\\0" not in open(f"/proc/{process}/cmdline", "rb").read():
                with open(f"/proc/{process}/stat") as launcher:  # mpirun, or what it started
                    process = int(launcher.read().rpartition(")")[2].split()[1])
            os.kill(process, number)
            while not backup._requests._mine:  # at the latest the launcher's limit ends this
                time.sleep(0.01)

TrainingWriter.add, TrainingWriter.finish = add_or_die, count
x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
y = np.repeat(np.sin(x), 2, axis=1)
backup, ask = adasum.callbacks.BackupAndRestore(folder, save_freq=4), AskLauncher()
if adasum.rank() == 0 and os.path.exists(folder):
    print("found", sorted(os.listdir(folder)))
try:
    history = model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[ask, backup])
finally:
    print("batches", ask.batches, "saves", saves, flush=True)
weights = [variable.value.values[0].numpy().tolist() for variable in model.variables]
if adasum.rank() == 0:
    print("result", json.dumps([history.epoch, weights]))
"""


def _run(folder, backup, how="spared", *options):
    path = folder / "program.py"
    path.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", "2", "--timeout", "180", *options]
    run = [*launcher, sys.executable, str(path), str(backup), how]
    return programs.run(run, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3")


def _result(run):
    assert run.returncode == 0, run.stderr
    (line,) = [line for line in run.stdout.splitlines() if "result " in line]
    return json.loads(line.partition("result ")[2])


def _lines(run, what):
    """What rank 0 printed behind a word, and the others, in any order."""
    return sorted(line.partition(f"{what} ")[2] for line in run.stdout.splitlines() if what in line)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights of a training that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    epochs, weights = _result(_run(folder, folder / "backup"))
    assert epochs == [0, 1, 2]
    return weights


def test_a_killed_job_goes_on_where_it_was_saved(tmp_path, undisturbed):
    """Saves follow batch 3, by SIGUSR1, 7 and 11; the one of batch 15 is cut off."""
    run = _run(tmp_path, tmp_path / "backup", "killed", "--max-restarts=1")
    assert "start 1 ended with exit code 137 (SIGKILL): restart 1 of 1" in run.stderr
    assert _lines(run, "found") == ["['training.h5', 'training.h5.partial']"]
    said = run.stderr + run.stdout
    assert "SIGUSR1: asked the ranks to back up and go on" in said
    assert "goes on with epoch 1, after 5 of its batches" in said
    assert _result(run) == [[1, 2], undisturbed]


@pytest.mark.long
def test_sigterm_in_the_midst_of_an_epoch_ends_a_job_that_goes_on(tmp_path, undisturbed):
    """Of 18 batches 9 are made before, and 9 by a second start: the bits are the same."""
    backup = tmp_path / "backup"
    ended = _run(tmp_path, backup, "ended", "--max-restarts=1")
    assert ended.returncode == 143, ended.stderr
    assert "the ranks have ended on SIGTERM" in ended.stderr
    assert "restart" not in ended.stderr
    assert _lines(ended, "batches") == ["9 saves [4, 2, 3]", "9 saves []"]
    assert os.listdir(backup) == ["training.h5"]
    resumed = _run(tmp_path, backup)
    assert "goes on with epoch 1, after 3 of its batches" in resumed.stderr + resumed.stdout
    assert [line.split()[0] for line in _lines(resumed, "batches")] == ["9", "9"]
    assert _result(resumed) == [[1, 2], undisturbed]


# The first call of fit is older than the hooks, which the callback brings.
OLDER = """
import sys
import keras, numpy as np, tf_adasum as adasum

class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise InterruptedError

def fit(backs_up, *callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    model.compile(keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5), loss="mse")
    backups = [lambda: adasum.callbacks.BackupAndRestore(sys.argv[1])] * backs_up
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    model.fit(x, y, 8, 4, verbose=0, callbacks=[swap, *(make() for make in backups), *callbacks])
    return [weight.tolist() for weight in model.get_weights()]

x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
y = np.sin(x)
try:
    fit(True, Stop())
except InterruptedError:
    resumed, straight = fit(True), fit(False)
    assert resumed == straight, (resumed, straight)
    print("went on")
"""


@pytest.mark.long
def test_averages_that_a_first_fit_has_saved_are_taken_out_of_the_model(tmp_path):
    run = programs.run([sys.executable, "-c", OLDER, str(tmp_path / "backup")], LIMIT_SECONDS)
    assert run.stdout == "went on\n", run.stderr


PLAIN = """
import os, signal, sys
import keras, numpy as np, tf_adasum as adasum

class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == 7:
            os.kill(os.getpid(), signal.SIGTERM)  # heard after the next batch

def fit(*callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dropout(0.2)])
    model.compile(keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
    make = {"backup": lambda: adasum.callbacks.BackupAndRestore(sys.argv[1]), "stop": Stop}
    try:  # the first call of fit is older than the hooks, which the callback brings
        made = model.fit(x, y, 8, 3, verbose=0, callbacks=[make[name]() for name in callbacks])
    except SystemExit as ended:
        return ended.code
    logs = [made.history[name][-2:] for name in ("loss", "mae")]
    return made.epoch, logs, [w.tolist() for w in model.get_weights()]

x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
y = np.sin(x)
assert fit("backup", "stop") == 143
resumed, straight = fit("backup"), fit()
assert resumed[0] == [1, 2] and resumed[1:] == straight[1:], (resumed, straight)
"""


@pytest.mark.long
def test_a_process_without_a_strategy_goes_on_too(tmp_path):
    """SIGTERM comes after 2 of an epoch's 5 batches, and is heard after 3."""
    command = [sys.executable, "-c", PLAIN, str(tmp_path / "backup")]
    run = programs.run(command, LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
