"""Keras callbacks: the curve that a training leaves, and a bar of its epochs."""

from __future__ import annotations

from collections.abc import Callable

import keras
from tqdm import tqdm

from models.digits.evaluation import Evaluation


class Curve(keras.callbacks.Callback):
    """Evaluates the model before training, every few steps and at the end of each epoch.

    Args:
        evaluation: of the model that is trained.
        every: steps from one measurement to the next.
        orthogonality: returns the orthogonality of the replicas' gradients at a step; None
            leaves it out.

    Attributes:
        points: list of `{"step", "loss", "accuracy"}`, with "orthogonality" where it is measured;
            filled on every rank.
        accuracies: the accuracy at the end of each epoch.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        every: int,
        orthogonality: Callable[[int], float] | None = None,
    ):
        super().__init__()
        self.points: list[dict[str, float]] = []
        self.accuracies: list[float] = []
        self._evaluation, self._every, self._orthogonality = evaluation, every, orthogonality
        self._step, self._epoch_start = 0, 0

    def on_train_begin(self, logs=None) -> None:
        """Measures the untrained model."""
        self._measure()

    def on_epoch_begin(self, epoch: int, logs=None) -> None:
        """Notes where the epoch begins."""
        self._epoch_start = self._step

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        """Measures after every `every` steps; several may come at once (steps_per_execution)."""
        self._step = self._epoch_start + batch + 1
        if self._step % self._every == 0:
            self._measure()

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        """Measures unless the epoch's last step was measured already."""
        if self.points[-1]["step"] < self._step:
            self._measure()
        self.accuracies.append(self.points[-1]["accuracy"])

    def _measure(self) -> None:
        loss, accuracy = self._evaluation()
        point = {"step": self._step, "loss": loss, "accuracy": accuracy}
        if self._orthogonality is not None:
            point["orthogonality"] = self._orthogonality(self._step)
        self.points.append(point)


class EpochBar(keras.callbacks.Callback):
    """Shows one progress bar for all epochs of a training, and removes it at the end.

    Args:
        title: stands before the bar.
        epochs: number of epochs.
    """

    def __init__(self, title: str, epochs: int):
        super().__init__()
        self._title, self._epochs = title, epochs

    def on_train_begin(self, logs=None) -> None:
        """Shows the empty bar."""
        # A rank writes into a pipe, so that tqdm cannot ask for the width of the terminal.
        self._bar = tqdm(total=self._epochs, desc=self._title, unit="epoch", ncols=79, leave=False)

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        """Moves the bar on."""
        self._bar.update()

    def on_train_end(self, logs=None) -> None:
        """Removes the bar."""
        self._bar.close()
