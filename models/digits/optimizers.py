"""The optimizers to choose from by name."""

from __future__ import annotations

import keras

NAMES = ("sgd", "momentum", "adam")


def make(name: str, learning_rate: float) -> keras.optimizers.Optimizer:
    """Returns a new Keras optimizer, not wrapped.

    Args:
        name: "sgd", "momentum" (SGD with momentum 0.9) or "adam" (with Keras' betas).
        learning_rate: as the optimizer takes it.

    Raises:
        ValueError: another name.

    Example:
        >>> optimizer = tf_adasum.wrap(make("adam", 1e-3))
    """
    if name == "sgd":
        return keras.optimizers.SGD(learning_rate)
    if name == "momentum":
        return keras.optimizers.SGD(learning_rate, momentum=0.9)
    if name == "adam":
        return keras.optimizers.Adam(learning_rate)
    raise ValueError(f"expected one of {', '.join(NAMES)}. Received: {name!r}.")
