"""wrap: makes a Keras optimizer combine the replicas by Adasum instead of averaging them."""

from __future__ import annotations

import functools

import keras
from typing_extensions import override

from tf_adasum.exchange import ExchangeMixin

_MODES = ("delta", "gradient")
_register = keras.saving.register_keras_serializable("tf_adasum", "AdasumOptimizer")


@_register
class AdasumOptimizer(ExchangeMixin):
    """What `wrap` adds to an optimizer's class; saved models name it, so it loads them.

    Its configuration is the one of the user's optimizer plus an entry "adasum" that holds the
    mode and the user's class.
    """

    @override
    def get_config(self) -> dict:
        base = type(self)._adasum_base
        config = super().get_config()
        public = base.__module__.startswith("keras.")
        config["adasum"] = {
            "mode": self._adasum_mode,
            "module": "keras.optimizers" if public else base.__module__,
            "class_name": base.__name__,
            "registered_name": None if public else keras.saving.get_registered_name(base),
        }
        return config

    @classmethod
    @override
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        config = dict(config)
        identity = dict(config.pop("adasum"))
        mode = identity.pop("mode")
        optimizer = keras.saving.deserialize_keras_object(
            {**identity, "config": config}, custom_objects=custom_objects
        )
        return wrap(optimizer, mode=mode)


@functools.cache
def _wrapped_class(base: type) -> type:
    # All are registered under one name: any of them can load what any other saved.
    attributes = {"_adasum_base": base, "__module__": __name__}
    return _register(type(f"Adasum{base.__name__}", (AdasumOptimizer, base), attributes))


def wrap(optimizer: keras.optimizers.Optimizer, mode: str = "delta") -> keras.optimizers.Optimizer:
    """Lets `optimizer` combine the N replicas of an `AdasumStrategy` by Adasum.

    With replica gradients g_1 .. g_N and the optimizer's own update rule U:

        mode="delta":     d_r = U(w, g_r) - w  on every replica,   w <- w + Adasum(d_1, .., d_N)
        mode="gradient":  w <- U(w, Adasum(g_1, .., g_N)),         one identical step everywhere

    g_r is the gradient of the replica's own batch: the 1/N in Keras' losses is undone first,
    before accumulation and clipping. Weight decay is applied before d_r is taken, outside of it.
    In delta mode momenta stay with their replica (rank 0's first replica is saved); in gradient
    mode they are equal everywhere. Rules of the strategy may replace Adasum per variable.

    The optimizer itself is changed and returned: it becomes an instance of a subclass of its
    class, with its learning rate, variables and settings. Create it inside `strategy.scope()`.
    Without an AdasumStrategy, in a single process, it behaves as it did before. Embedding
    gradients (`tf.IndexedSlices`) are exchanged as dense tensors.

    Args:
        optimizer: a Keras optimizer; in a `LossScaleOptimizer` the inner one is wrapped.
        mode: "delta" or "gradient".

    Returns:
        The same optimizer.

    Raises:
        TypeError: not a Keras optimizer, or one that cannot be wrapped.
        ValueError: unknown mode, or the optimizer is wrapped already.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.wrap(keras.optimizers.Adam(1e-3), mode="gradient")
        >>> isinstance(optimizer, keras.optimizers.Adam)
        True

    Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021,
    section 3 (the rule) and section 4 (applying it to the change of the weights).
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be 'delta' or 'gradient'. Received: mode={mode!r}.")
    _check_wrappable(optimizer, mode)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        wrap(optimizer.inner_optimizer, mode=mode)
        return optimizer
    # Swapping the class keeps everything a copy would lose: callable learning rates, weight
    # decay exclusions, slots, and the identity under which Keras tracks the optimizer.
    object.__setattr__(optimizer, "__class__", _wrapped_class(type(optimizer)))
    optimizer._adasum_mode = mode
    if optimizer.built:
        optimizer._register_variables()
    return optimizer


def _check_wrappable(optimizer: object, mode: str) -> None:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "wrap needs a Keras 3 optimizer instance, such as keras.optimizers.Adam(1e-3). "
            f"Received: {optimizer!r} of type {type(optimizer).__name__}."
        )
    if isinstance(optimizer, AdasumOptimizer):
        raise ValueError(
            "wrap was given an optimizer that is wrapped already; wrap it once. "
            f"Received: {optimizer.name!r} in mode {optimizer._adasum_mode!r}."
        )
    if isinstance(optimizer, _optional("MultiOptimizer")):
        raise TypeError(
            "wrap the optimizers inside a MultiOptimizer, one by one, before you build it. "
            f"Received: {optimizer.name!r}, a MultiOptimizer."
        )
    if mode == "delta" and isinstance(optimizer, _optional("ScheduleFreeAdamW")):
        raise TypeError(
            "ScheduleFreeAdamW keeps its weights in a slot that mode='delta' does not exchange; "
            f"use wrap(optimizer, mode='gradient'). Received: {optimizer.name!r}."
        )


def _optional(name: str) -> type | tuple:
    """An optimizer class that older versions of Keras lack; nothing is an instance of ()."""
    return getattr(keras.optimizers, name, ())
