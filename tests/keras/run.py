"""A run of a row's script: on one device without a strategy, or on the replicas of a column."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tf_adasum
from tests.training import replicas
from tests.training.replicas import examples, small_model

PLAIN, MEAN, ADASUM = "plain", "mean", "adasum"
# Rows of a global batch: 2, 3 and 4 replicas have 6, 4 and 3 of them.
BATCH = 12
_RULES = {MEAN: [(".*", "mean")], ADASUM: None}


class Run:
    """What a script of the table asks for, so that one text serves all runs.

    Args:
        kind: PLAIN is one device without a strategy; MEAN averages the gradients of the replicas,
            which is one device with the global batch; ADASUM is what `wrap` does by itself.
        number: replicas of the column; also in the plain run.
        num_local: those of this process.
        alike: whether all replicas get the same rows of each batch.

    Attributes:
        strategy: None in the plain run.
        models: those whose weights must be the same bits on all replicas at the end.
    """

    def __init__(self, kind: str, number: int, num_local: int, alike: bool = False):
        self.kind, self.number, self.alike = kind, number, alike
        self._num_local = num_local
        self.strategy = None
        if kind != PLAIN:
            self.strategy = replicas.strategy(num_local, reductions=_RULES[kind])
        self.models: list[keras.Model] = []
        keras.utils.set_random_seed(7)

    @property
    def is_plain(self) -> bool:
        """Whether this is the one device that the others are compared with."""
        return self.kind == PLAIN

    def set_rules(self, first: str, *others: str) -> None:
        """Gives the strategy a "mean" for the first pattern; where all are means, for others."""
        patterns = [first, *others] if self.kind == MEAN else [first]
        if not self.is_plain:
            rules = [(pattern, "mean") for pattern in patterns]
            self.strategy = replicas.strategy(self._num_local, reductions=rules)

    def set_communicator(self, communicator: tf_adasum.Communicator) -> None:
        """Lets the strategy have these ranks only."""
        options = {"reductions": _RULES[self.kind], "communicator": communicator}
        self.strategy = replicas.strategy(self._num_local, **options)

    @property
    def writes(self) -> bool:
        """Whether this rank writes the files of a run that all read."""
        return self.is_plain or tf_adasum.rank() == 0

    def folder(self) -> str:
        """A new folder: one for all ranks, or the plain run's own."""
        if self.is_plain:
            return tempfile.mkdtemp()
        return os.path.dirname(replicas.shared_path("files"))

    def own_rows(self, batch: int) -> np.ndarray:
        """The numbers of the rows of a batch that this rank has, as `train_on_batch` takes them."""
        rows = np.arange(batch * BATCH, (batch + 1) * BATCH)
        return rows if self.is_plain else np.split(rows, tf_adasum.size())[tf_adasum.rank()]

    def scope(self):
        """The strategy's scope, if there is a strategy."""
        return contextlib.nullcontext() if self.is_plain else self.strategy.scope()

    def wrap(self, optimizer: keras.optimizers.Optimizer, **settings):
        """The optimizer as this run uses it; `settings` are further ones of `tf_adasum.wrap`."""
        if self.is_plain:
            return optimizer
        settings = {"mode": "gradient" if self.kind == MEAN else "delta", **settings}
        return tf_adasum.wrap(optimizer, **settings)

    def compiled(
        self,
        make_model: Callable[[], keras.Model] = small_model,
        make_optimizer: Callable[[], keras.optimizers.Optimizer] | None = None,
        loss: Any = "mse",
        **options,
    ) -> keras.Model:
        """A model, made and compiled as everyday scripts do it.

        What stands for a list of metrics may be a function that makes them, in the scope.
        """
        with self.scope():
            model = make_model()
            for name in ("metrics", "weighted_metrics"):
                if callable(options.get(name)):
                    options[name] = options[name]()
            optimizer = make_optimizer() if make_optimizer else momentum()
            model.compile(optimizer=self.wrap(optimizer), loss=loss, **options)
        return model

    def batches(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays, of whole global batches; with `alike` a batch is its first part repeated."""
        if not self.alike:
            return arrays
        part = BATCH // self.number

        def repeated(rows):
            firsts = [rows[begin : begin + part] for begin in range(0, len(rows), BATCH)]
            return np.concatenate([first for first in firsts for _ in range(self.number)])

        return tuple(repeated(rows) for rows in arrays)

    def examples(self, num_batches: int = 3) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets for `small_model`."""
        return self.batches(*examples(num_batches * BATCH))

    def fit(self, model: keras.Model, x: Any, y: Any = None, epochs: int = 2, **options):
        """`model.fit` in the order of the data; returns its history."""
        if isinstance(x, (np.ndarray, list, dict)):
            options = {"batch_size": BATCH, "shuffle": False, **options}
        return model.fit(x, y, epochs=epochs, verbose=0, **options).history

    def check_falls(self, history: dict[str, list[float]]) -> None:
        """Fails unless the loss is less at the end than at the beginning."""
        losses = history["loss"]
        assert losses[-1] < losses[0], f"the loss does not fall: {losses}"

    def result(self, model: keras.Model, history: dict | None = None, **more) -> dict[str, Any]:
        """What a script returns: weights, history, and what else must be equal, by name."""
        self.models.append(model)
        return {"weights": model.get_weights(), "history": history or {}, **more}


def fitted(run: Run, make_optimizer=None, num_batches: int = 4, **options) -> dict[str, Any]:
    """The result of fitting `small_model`; the options are those of `compile`."""
    model = run.compiled(make_optimizer=make_optimizer, **options)
    return run.result(model, run.fit(model, *run.examples(num_batches)))


def momentum(rate: Any = 0.05, **options) -> keras.optimizers.SGD:
    """SGD with momentum, the optimizer of rows whose subject is something else."""
    return keras.optimizers.SGD(rate, momentum=0.9, **options)
