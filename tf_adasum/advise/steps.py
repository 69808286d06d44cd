"""Times the model's own training steps, by `fit`, with its ranks and without them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from tf_adasum.advise import examples
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes
from tf_adasum.distribute.strategy import AdasumStrategy
from tf_adasum.distribute.variables import first_copy, native_variable
from tf_adasum.keras_hooks.steps.optimizer_parts import batches_seen

_FEWEST, _MOST = 5, 40
_SLOW_SECONDS = 2.0  # a step that takes longer is timed twice, and not `_FEWEST` times


class StepTime(NamedTuple):
    """Medians, of the slowest rank in each step.

    Attributes:
        seconds: from one step of `fit` to the next.
        cpu_seconds: of processors, in a step of one rank; the mean of the ranks.
    """

    seconds: float
    cpu_seconds: float


@contextlib.contextmanager
def alone(model: keras.Model, communicator: Communicator) -> Iterator[None]:
    """Inside, this rank trains by itself: what is traced here exchanges nothing.

    Args:
        model: of whose strategy the ranks are.
        communicator: of the ranks; all call it.
    """
    functions = model.train_function, model.test_function
    with contextlib.ExitStack() as stack:
        if communicator.size > 1 and isinstance(model.distribute_strategy, AdasumStrategy):
            own = communicator.split(color=communicator.rank, name="advise: every rank alone")
            stack.callback(own.close)
            stack.enter_context(model.distribute_strategy.extended.among(own))
            model.train_function = model.test_function = None
        try:
            yield
        finally:
            model.train_function, model.test_function = functions


def time_steps(
    model: keras.Model,
    batch: Any,
    communicator: Communicator,
    budget_seconds: float,
    callbacks: list[keras.callbacks.Callback],
) -> StepTime:
    """Trains on one batch again and again; all ranks call it.

    Args:
        model: a compiled model.
        batch: what a step trains on.
        communicator: the ranks, which take equally many steps.
        budget_seconds: about how long the steps that are timed may take.
        callbacks: of the steps that trace and warm up, which come first.
    """
    _fit(model, batch, 1, callbacks)
    (first,), _ = _timed_fit(model, batch, 1)
    number = number_within(budget_seconds, slowest(first, communicator))
    seconds, cpu_seconds = _timed_fit(model, batch, number)
    of_ranks = _of_all(np.array([*seconds, cpu_seconds]), communicator)
    slowest_steps = of_ranks[:, :-1].max(axis=0)
    return StepTime(float(np.median(slowest_steps)), float(of_ranks[:, -1].mean()))


def time_forward(model: keras.Model, batch: Any, communicator: Communicator) -> float:
    """Seconds of a step of `evaluate`, of the slowest rank; 0 where the model has none.

    Call it inside `alone`: a rank may fail where others don't.
    """
    own = 0.0
    try:
        _evaluate(model, batch, 1)
        clock = _Clock(model, model.test_function)
        model.test_function = clock
        _evaluate(model, batch, _FEWEST + 1)
        own = float(np.median(clock.seconds)) / model.steps_per_execution
    except Exception:  # a model of train_step alone: how much overlaps is then not known
        pass
    of_ranks = _of_all(np.array([own]), communicator)
    return float(of_ranks.max()) if of_ranks.all() else 0.0


def _evaluate(model: keras.Model, batch: Any, number: int) -> None:
    steps = number * model.steps_per_execution
    keras.Model.evaluate(model, examples.repeated(batch), steps=steps, verbose=0)


def number_within(budget_seconds: float, seconds: float) -> int:
    """How many repetitions of so many seconds fit."""
    fewest = 2 if seconds > _SLOW_SECONDS else _FEWEST
    return int(np.clip(math.ceil(budget_seconds / max(seconds, 1e-6)), fewest, _MOST))


def slowest(seconds: float, communicator: Communicator) -> float:
    """The most that any rank has; all call it."""
    return float(_of_all(np.array([seconds]), communicator).max())


def _of_all(numbers: np.ndarray, communicator: Communicator) -> np.ndarray:
    """A row for each rank."""
    rows = gather_bytes(numbers.astype(np.float64).tobytes(), communicator, "advise: times")
    return np.array([np.frombuffer(row) for row in rows])


def _fit(model: keras.Model, batch: Any, number: int, callbacks: list | None = None) -> None:
    keras.Model.fit(
        model,
        examples.repeated(batch),
        steps_per_epoch=number * model.steps_per_execution,
        verbose=0,
        shuffle=False,
        callbacks=callbacks,
    )


def _timed_fit(model: keras.Model, batch: Any, number: int) -> tuple[list[float], float]:
    """Seconds of each step but the first, and of processors of a step."""
    clock = _Clock(model, model.train_function)
    model.train_function = clock
    try:
        _fit(model, batch, number + 1)
    finally:
        model.train_function = clock.function
    executed = model.steps_per_execution
    return [each / executed for each in clock.seconds], clock.cpu_seconds / executed


class _Clock:
    """A function of a model's steps that takes the time when each is done.

    No callback: with one that has methods for batches ranks ask each other after each batch.
    """

    def __init__(self, model: keras.Model, function: Callable):
        self.function = function
        self._model = model
        self._times: list[float] = []
        self._cpu_times: list[float] = []

    def __call__(self, iterator):
        logs = self.function(iterator)
        # A device that works on by itself is waited for.
        first_copy(native_variable(batches_seen(self._model.optimizer))).numpy()
        self._times.append(time.perf_counter())
        self._cpu_times.append(time.process_time())
        return logs

    @property
    def seconds(self) -> list[float]:
        return np.diff(self._times).tolist()

    @property
    def cpu_seconds(self) -> float:
        return float(np.mean(np.diff(self._cpu_times)))
