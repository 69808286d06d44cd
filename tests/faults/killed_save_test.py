"""Rank 0 is killed while Keras' own ModelCheckpoint writes: the save before is whole."""

import os
import sys
import zipfile

import h5py
import pytest

from tests import programs

LIMIT_SECONDS = 120

PROGRAM = """
import os, signal, sys
import keras, numpy as np
import tf_adasum as adasum

class Deadly(keras.layers.Dense):
    saves = 0

    def save_own_variables(self, store):  # Keras has opened the file
        super().save_own_variables(store)
        Deadly.saves += 1
        if Deadly.saves == 2:
            os.kill(os.getpid(), signal.SIGKILL)

path = sys.argv[1]
with adasum.AdasumStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(200), Deadly(4)])
    model.compile(adasum.wrap(keras.optimizers.SGD(0.01)), loss="mse")
x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
checkpoint = keras.callbacks.ModelCheckpoint(path, save_weights_only=path.endswith(".h5"))
model.fit(x, x, batch_size=8, epochs=3, verbose=0, callbacks=[checkpoint])
"""


@pytest.mark.parametrize(
    "name", ["model.keras", pytest.param("model.weights.h5", marks=pytest.mark.long)]
)
def test_a_killed_save_leaves_the_one_before(tmp_path, name):
    program, folder = tmp_path / "program.py", tmp_path / "saved"
    program.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", "2", "--timeout", "100", sys.executable]
    run = programs.run([*launcher, str(program), str(folder / name)], LIMIT_SECONDS)
    assert run.returncode in programs.KILLED, run.stderr
    if name.endswith(".h5"):
        with h5py.File(folder / name) as file:
            assert file["layers/dense/vars/0"][()].shape == (4, 200)
            assert file["layers/deadly/vars/0"][()].shape == (200, 4)
    else:
        with zipfile.ZipFile(folder / name) as archive:
            assert archive.testzip() is None
            assert "model.weights.h5" in archive.namelist()
    # What was begun is there, under a name that glob("*.keras") does not find, else the kill came
    # too late.
    begun = name.replace("model", ".model.partial")
    assert sorted(os.listdir(folder)) == sorted([name, begun])
