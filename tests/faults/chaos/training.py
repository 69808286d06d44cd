"""What each rank of a chaos run trains: `python training.py FOLDER EPOCHS PAUSE`.

In FOLDER it reads digits.npz, backs up to `backup`, says by `trains.N` that the N-th start trains,
waits before the last epoch until there is `finish`, and leaves the values of all its variables.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import tf_adasum as adasum

ROWS, BATCH = 1280, 64  # 20 batches an epoch
SAVE_EVERY = 10  # batches
_LIMIT_SECONDS = 3000  # of the wait for `finish`


class Course(keras.callbacks.Callback):
    """Says that the training goes on, keeps it from being too fast, and from ending too soon."""

    stops_nothing = True

    def __init__(self, folder: Path, pause: float):
        super().__init__()
        self._folder = folder
        self._pause = pause

    def on_epoch_begin(self, epoch, logs=None):
        """Waits before the last epoch."""
        end = time.monotonic() + _LIMIT_SECONDS
        is_last = epoch == self.params["epochs"] - 1
        while is_last and not (self._folder / "finish").exists() and time.monotonic() < end:
            self._say()
            time.sleep(0.05)

    def on_train_batch_end(self, batch, logs=None):
        """Takes its time."""
        self._say()
        time.sleep(self._pause)

    def _say(self):
        if adasum.rank() == 0:
            (self._folder / f"trains.{os.environ['TF_ADASUM_RESTARTS']}").touch()


def main(folder: Path, epochs: int, pause: float) -> None:
    """Trains, or goes on."""
    keras.utils.set_random_seed(1)
    with adasum.AdasumStrategy().scope():
        layers = [keras.layers.Dense(64, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((64,)), *layers])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(adasum.wrap(keras.optimizers.Adam(1e-4)), loss, metrics=["accuracy"])
    digits = np.load(folder / "digits.npz")
    images, labels = digits["images"][:ROWS], digits["labels"][:ROWS]
    backup = adasum.callbacks.BackupAndRestore(str(folder / "backup"), save_freq=SAVE_EVERY)
    callbacks = [Course(folder, pause), backup]
    model.fit(images, labels, BATCH, epochs, verbose=0, callbacks=callbacks)
    # This rank's own values: slots differ between ranks.
    values = [
        variable.value.values[0] for variable in [*model.variables, *model.optimizer.variables]
    ]
    arrays = {str(number): value.numpy() for number, value in enumerate(values)}
    np.savez(folder / f"result.{adasum.rank()}.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
