"""OrthogonalityLogger: how much Adasum keeps of what the replicas bring to it."""

from __future__ import annotations

import keras
from typing_extensions import override

from tf_adasum import keras_hooks
from tf_adasum.callbacks.orthogonality_sums import OrthogonalitySums
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.steps.model_optimizers import compiled_optimizer
from tf_adasum.optimizers.mixin import AdasumMixin


class OrthogonalityLogger(keras.callbacks.Callback):
    """Adds to the logs of each epoch how orthogonal the replicas' vectors were.

    With the vectors x_1 .. x_N that the N replicas exchange for a variable,

        orthogonality = |Adasum(x_1, .., x_N)|^2 / (|x_1|^2 + .. + |x_N|^2)

    is 1 where they are orthogonal and 1/N where they are parallel and equal. `orthogonality` is
    that of all variables together: the sum over variables of the numerators, over that of the
    denominators. Both are summed over the exchanges of an epoch as well, so that an epoch's value
    is the mean over its steps, each weighted by its denominator; NaN where an epoch has none.

    The vectors are the changes of the weights in delta mode and the gradients in gradient mode;
    with `steps_per_sync` and `accumulate` only the steps that exchange count. With a local
    reduction they are the hosts' results, and with a single host there is nothing to measure.
    Variables whose rule is another reduction than Adasum are left out, and so are those that travel
    encoded (`compression`). Nothing is measured on GPUs, with `sync=Deadline()` or `Lazy()`, and of
    OneBitAdam, OneBitLamb, ZeroOneAdam, SketchedSGD and CADA: NaN. One replica alone has 1: Adasum
    of one vector is itself.

    The numbers come from the dot products by which Adasum combines the vectors: no further pass
    over them and no further exchange, but for a few bytes to ranks beyond a power of two. All ranks
    have the callback, and get the same numbers. It moves to the front of the callbacks of `fit`, so
    that those before it in the list (CSVLogger, TensorBoard) see the value, too. `fit` traces a
    step of its own with it, and the step without it is put back at the end.

    Args:
        per_variable: whether the logs also have `orthogonality/<path>` for each variable.

    Raises:
        ValueError: `per_variable` is no bool; or in `fit`, the optimizer is not wrapped, is a
            MultiOptimizer, or is measured already by another one.
        RuntimeError: something else than `fit` calls it.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy(["CPU:0"]).scope():
        ...     model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        ...     model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
        >>> x = keras.ops.ones((16, 1))
        >>> logger = tf_adasum.callbacks.OrthogonalityLogger()
        >>> history = model.fit(x, x, batch_size=8, verbose=0, callbacks=[logger]).history
        >>> history["orthogonality"]  # of one replica
        [1.0]

    Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021,
    section 3.
    """

    belongs_to_all_ranks = True  # which ranks compare when fit begins

    def __init__(self, per_variable: bool = False):
        super().__init__()
        if not isinstance(per_variable, bool):
            expected, advice = "per_variable to be True or False", "Pass one of them."
            raise ValueError(refusal(expected, shown(per_variable), advice))
        keras_hooks.install()  # without a strategy, too: they know the callbacks of fit
        self.per_variable = per_variable
        self._sums = OrthogonalitySums()
        # The model's own step, and the one that is traced in its place.
        self._plain_step = self._measured_step = None

    @override
    def on_train_begin(self, logs=None):
        exchange = self._exchange()
        call = calls.current()
        if call is None or call.callbacks is None:
            expected, advice = "OrthogonalityLogger to be called by fit", "Pass it in callbacks."
            raise RuntimeError(refusal(expected, "a call by something else", advice))
        callbacks = call.callbacks.callbacks
        if self in callbacks:
            callbacks.insert(0, callbacks.pop(callbacks.index(self)))
        if self._is_alone():
            return
        self._take_measured_step(exchange)
        call.at_end.callback(_put_back, self.model, exchange, self._plain_step)

    @override
    def on_epoch_begin(self, epoch, logs=None):
        self._sums.reset()

    @override
    def on_epoch_end(self, epoch, logs=None):
        if logs is None:
            return
        logs["orthogonality"] = 1.0 if self._is_alone() else self._sums.of_all()
        if self.per_variable:
            logs.update({f"orthogonality/{path}": value for path, value in self._of_each().items()})

    def _take_measured_step(self, exchange) -> None:
        """Lets `fit` take the step that measures; in the next `fit` it is the same function."""
        model = self.model
        if model.train_function is self._plain_step:
            model.train_function = self._measured_step
        else:
            self._plain_step = model.train_function
            self._sums = OrthogonalitySums()
            model.make_train_function(force=True)
            self._measured_step = model.train_function
        exchange.measure = self._sums.add

    def _of_each(self) -> dict[str, float]:
        if self._is_alone():
            return {variable.path: 1.0 for variable in self.model.trainable_variables}
        return self._sums.of_each()

    def _is_alone(self) -> bool:
        return self.model.distribute_strategy.num_replicas_in_sync == 1

    def _exchange(self):
        """What the model's optimizer exchanges with, which is free to be measured."""
        optimizer = compiled_optimizer(self.model)
        if not isinstance(optimizer, AdasumMixin):
            expected = "a wrapped optimizer, whose exchange OrthogonalityLogger measures"
            received = f"{type(optimizer).__name__}, not wrapped"
            advice = "Compile the model with tf_adasum.wrap(optimizer)."
            if hasattr(optimizer, "optimizers"):
                expected = "one wrapped optimizer, whose exchange OrthogonalityLogger measures"
                received = f"{type(optimizer).__name__}, which has several"
                advice = "Compile the model with one tf_adasum.wrap(optimizer), or leave it out."
            raise ValueError(refusal(expected, received, advice))
        exchange = optimizer._adasum.exchange
        if exchange.measure is not None:
            expected = f"one OrthogonalityLogger for the optimizer {optimizer.name!r}"
            raise ValueError(refusal(expected, "a second one", "Give fit one of them."))
        return exchange


def _put_back(model, exchange, plain_step) -> None:
    exchange.measure = None
    model.train_function = plain_step
