"""LARS: momentum SGD with a learning rate of its own for every variable."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import keras
from keras import ops
from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.distribute.variables import native_variable


@keras.saving.register_keras_serializable("tf_adasum")
class LARS(keras.optimizers.Optimizer):
    """Layer-wise adaptive rate scaling, an optimizer for large batches, which Keras lacks.

    With a variable w, its gradient g, learning rate r, momentum m, weight decay b and trust
    coefficient c:

        t = c |w| / (|g| + b |w|)       1 where |w| or |g| + b |w| is zero
        v <- m v + r t (g + b w)
        w <- w - v

    Weight decay is inside the step, as the paper has it, and not apart from it as in other Keras
    optimizers. `exclude_from_weight_decay` works as with those.

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        momentum: m, from 0 to below 1.
        weight_decay: b, at least 0.
        trust_coefficient: c, above 0.
        exclude_from_layer_adaptation: regular expressions; a variable whose path one of them is
            found in has t = 1. Biases and the scales of normalizations often are excluded.
        name: name of the optimizer.
        **kwargs: what all Keras optimizers take: clipnorm, use_ema and so on.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import numpy as np, keras, tf_adasum
        >>> weight = keras.Variable(np.float32([3.0, 4.0]))
        >>> step = tf_adasum.optimizers.LARS(0.1, momentum=0.0, trust_coefficient=0.5)
        >>> step.apply([np.float32([0.0, 10.0])], [weight])
        >>> weight.numpy().tolist()  # t = 0.5 * 5 / 10
        [3.0, 3.75]

    Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks",
    arXiv:1708.03888, Algorithm 1.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
        exclude_from_layer_adaptation: Sequence[str] = (),
        name: str = "lars",
        **kwargs,
    ):
        # Keras would apply a weight decay of its own before the step.
        super().__init__(learning_rate=learning_rate, weight_decay=None, name=name, **kwargs)
        _check_patterns(exclude_from_layer_adaptation)
        self.momentum = checked_float("momentum", momentum, 0, 1, below=True)
        self.decay_in_step = checked_float("weight_decay", weight_decay, 0)
        self.trust_coefficient = checked_float(
            "trust_coefficient", trust_coefficient, 0, above=True
        )
        self.exclude_from_layer_adaptation = list(exclude_from_layer_adaptation)

    @override
    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._velocities = [self.add_variable_from_reference(v, "velocity") for v in variables]
        # Here, since a step sees TensorFlow's variables, which don't know their paths.
        self._adapted = [not self._is_excluded(variable) for variable in variables]
        self._decays = [
            self.decay_in_step if self._use_weight_decay(native_variable(variable)) else 0.0
            for variable in variables
        ]

    @override
    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        velocity, decay = self._velocities[index], self._decays[index]
        # Norms of float16 would overflow.
        weight = ops.cast(variable, "float32")
        gradient = ops.cast(ops.convert_to_tensor(gradient), "float32")
        rate = ops.cast(learning_rate, "float32")
        if self._adapted[index]:
            rate = rate * self._trust_ratio(weight, gradient, decay)
        change = ops.cast(rate * (gradient + decay * weight), variable.dtype)
        self.assign(velocity, self.momentum * ops.convert_to_tensor(velocity) + change)
        self.assign_sub(variable, velocity)

    def _trust_ratio(self, weight, gradient, decay: float):
        # ops.norm refuses the four axes of a convolution's kernel.
        weight_norm, gradient_norm = (ops.norm(ops.reshape(x, (-1,))) for x in (weight, gradient))
        divisor = gradient_norm + decay * weight_norm
        adapts = ops.logical_and(weight_norm > 0, divisor > 0)
        divisor = ops.where(adapts, divisor, 1.0)
        return ops.where(adapts, self.trust_coefficient * weight_norm / divisor, 1.0)

    def _is_excluded(self, variable) -> bool:
        patterns = self.exclude_from_layer_adaptation
        return any(re.search(pattern, variable.path) for pattern in patterns)

    @override
    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "weight_decay": self.decay_in_step,
            "trust_coefficient": self.trust_coefficient,
            "exclude_from_layer_adaptation": self.exclude_from_layer_adaptation,
        }


_PATTERNS = "exclude_from_layer_adaptation to be a list of regular expressions"


def _check_patterns(patterns: Sequence[str]) -> None:
    # A string would be taken letter by letter.
    is_list = isinstance(patterns, (list, tuple))
    if not is_list or not all(isinstance(pattern, str) for pattern in patterns):
        raise ValueError(refusal(_PATTERNS, shown(patterns), "Pass ['bias$'], say."))
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            line = refusal(f"{_PATTERNS} ({error})", shown(pattern), "Correct it.")
            raise ValueError(line) from error
