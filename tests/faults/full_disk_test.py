"""No room for a save: all ranks get the same OSError, and go on from the save before."""

from __future__ import annotations

import sys

from tests import programs

LIMIT_SECONDS = 150
RANKS = 2

PROGRAM = """
import os, resource, sys
import keras, numpy as np
import tf_adasum as adasum

folder, how = sys.argv[1:]
everything = resource.RLIM_INFINITY

class Fill(keras.callbacks.Callback):
    stops_nothing = True

    def on_epoch_begin(self, epoch, logs=None):
        if epoch != 1 or adasum.rank() > 0:
            return
        if how == "limit":  # of one file, which the first save has reached
            size = os.path.getsize(folder + "/training.h5")
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, everything))
        else:
            try:
                with open(folder + "/filler", "wb", buffering=0) as filler:
                    while True:
                        filler.write(bytes(4096))
            except OSError as error:
                print("full:", error, flush=True)

def make_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (everything, everything))
    if adasum.rank() == 0 and how == "disk":
        os.remove(folder + "/filler")

def fit(*callbacks):
    keras.utils.set_random_seed(3)
    with adasum.AdasumStrategy().scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256)])
        model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
    x = np.random.default_rng(0).normal(size=(48, 64)).astype("float32")
    y = np.repeat(np.sin(x), 4, axis=1)
    backup = adasum.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
    made = model.fit(x, y, batch_size=24, epochs=3, verbose=0, callbacks=[*callbacks, backup])
    return made.epoch, [weight.tolist() for weight in model.get_weights()]

def files():
    return sorted(os.listdir(folder))

try:
    fit(Fill())
except OSError as error:
    print("refused", error, flush=True)
if adasum.rank() == 0:
    print("left", files())
make_room()
epochs, weights = fit()
folder, left = folder + "/other", folder
straight = fit()[1]
print("then", epochs, weights == straight, os.listdir(left) if adasum.rank() == 0 else "")
"""


def _run(folder, how, *before):
    (folder / "program.py").write_text(PROGRAM)
    launcher = [*before, *programs.ADASUMRUN, "-np", str(RANKS), "--timeout", "120"]
    backup = folder / "backup"
    backup.mkdir()
    command = [*launcher, sys.executable, str(folder / "program.py"), str(backup), how]
    return programs.run(command, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3")


def _check(run, reason, left):
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    refused = sorted(line for line in lines if line.startswith("refused"))
    for rank, line in enumerate(refused):
        assert f"refused rank {rank}: Expected to write" in line
        assert "is left as it was. Make room for it or give another backup_dir" in line
        assert reason in line
    assert len(refused) == RANKS
    assert f"left {left}" in lines
    then = [line for line in lines if line.startswith("then")]
    assert [line.startswith("then [1, 2] True") for line in then] == [True] * RANKS, then
    assert ".partial" not in "".join(then)


def test_a_file_that_may_not_grow(tmp_path):
    """The second save is cut off in its midst; the first is what the rest goes on from."""
    _check(_run(tmp_path, "limit"), "File too large", ["training.h5"])


def test_a_full_disk(tmp_path):
    """A file system of its own, in namespaces that need no root where the system allows them."""
    mount = 'mount -t tmpfs -o size=3000k none "$0" && exec "$@"'
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    run = _run(tmp_path, "disk", *namespaces, str(tmp_path / "backup"))
    assert "full: [Errno 28] No space left on device" in run.stdout
    _check(run, "No space left on device", ["filler", "training.h5"])
