"""How long steps of `fit` take."""

import time

import keras


class StepTimes(keras.callbacks.Callback):
    """The seconds that each step of `fit` took."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        """Starts the clock."""
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Stops the clock."""
        self.seconds.append(time.perf_counter() - self._begin)
