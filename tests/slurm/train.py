"""What a job of the test trains: batches take BATCH_SECONDS (0.1) each, and are noted in a file.

python train.py BACKUP NOTES RESULT
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import tf_adasum as adasum

ROWS, BATCH, EPOCHS = 240, 8, 4


class Note(keras.callbacks.Callback):
    """Writes the number of each batch of all epochs, behind what earlier starts wrote."""

    stops_nothing = True

    def __init__(self, path: str):
        super().__init__()
        self._path = path
        self._epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        """Remembers the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        """Notes a batch on rank 0."""
        if adasum.rank() == 0:
            with open(self._path, "a") as notes:
                notes.write(f"{self._epoch * (ROWS // BATCH) + batch}\n")
        time.sleep(float(os.environ.get("BATCH_SECONDS", "0.1")))


def main(backup: str, notes: str, result: str) -> None:
    """Trains, or goes on, and writes the weights at the end."""
    keras.utils.set_random_seed(5)
    with adasum.AdasumStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
        model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
    x = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    y = np.repeat(np.sin(x), 2, axis=1)
    callbacks = [Note(notes), adasum.callbacks.BackupAndRestore(backup)]
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=callbacks)
    if adasum.rank() == 0:
        np.savez(result, *model.get_weights(), size=adasum.size())


if __name__ == "__main__":
    main(*sys.argv[1:])
