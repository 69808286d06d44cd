"""wrap: makes a Keras optimizer combine the replicas by Adasum instead of averaging them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import keras
from typing_extensions import override

from tf_adasum.collectives.compression import Compression
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.optimizers.exchanges import DeltaExchange, GradientExchange
from tf_adasum.optimizers.keras_steps import accumulation_of
from tf_adasum.optimizers.local_steps import LocalSteps, StepsPerSync, steps_of_ranks
from tf_adasum.optimizers.micro_batches import MicroBatches
from tf_adasum.optimizers.mixin import AdasumMixin
from tf_adasum.optimizers.parts import Accumulation, Exchange, Lacking, Parts
from tf_adasum.optimizers.sync.sync import Sync
from tf_adasum.optimizers.unused_variables import ZeroGradients
from tf_adasum.optimizers.variable_encoding import VariableEncoding
from tf_adasum.optimizers.wrap_checks import (
    check_flags,
    check_settings,
    check_sync,
    check_unused,
    check_wrappable,
    most_steps,
)

require_hooks(keras.optimizers.Optimizer, "_unpickle_model")

_EXCHANGES = {"delta": DeltaExchange, "gradient": GradientExchange}
_register = keras.saving.register_keras_serializable("tf_adasum", "AdasumOptimizer")


class _Settings(NamedTuple):
    """The arguments of `wrap` but the optimizer."""

    mode: str = "delta"
    accumulate: int = 1
    steps_per_sync: int | list[int] = 1
    divided_loss: bool | None = None
    compression: Compression | None = None
    sync: Sync | None = None
    unused_variables: bool = False


@_register
class AdasumOptimizer(AdasumMixin):
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
            **self.adasum_settings(),
            "divided_loss": self._adasum_divided_loss,
            "module": "keras.optimizers" if public else base.__module__,
            "registered_name": None if public else keras.saving.get_registered_name(base),
        }
        return config

    def adasum_settings(self) -> dict:
        """Returns what `wrap` was told, and the name of the class that it wrapped."""
        return {
            **self._adasum.get_config(),
            "compression": _config_of(self._adasum.exchange.encoding.compression),
            "sync": _config_of(self._adasum.exchange.sync),
            "class_name": type(self)._adasum_base.__name__,
        }

    @override
    def __reduce__(self):
        # Keras names a method of the class that wrap made, which pickle does not find.
        _, arguments = super().__reduce__()
        return _unpickle, arguments

    @classmethod
    @override
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        config = dict(config)
        identity = dict(config.pop("adasum"))
        # Optimizers saved by versions before these settings lack them.
        settings = {key: identity.pop(key) for key in _Settings._fields if key in identity}
        optimizer = keras.saving.deserialize_keras_object(
            {**identity, "config": config}, custom_objects=custom_objects
        )
        if settings.get("compression") is not None:
            settings["compression"] = Compression.from_config(settings["compression"])
        if settings.get("sync") is not None:
            settings["sync"] = Sync.from_config(settings["sync"])
            settings.pop("steps_per_sync", None)  # decided by sync
            if not settings["sync"].has_modes:
                settings.pop("mode", None)
        return _wrapped(optimizer, _Settings(**settings))


def _config_of(choice: Compression | Sync | None) -> dict | None:
    return None if choice is None else choice.get_config()


def _unpickle(buffer):
    """As Keras does it; here, so that pickle imports what registers the wrapped classes."""
    return keras.optimizers.Optimizer._unpickle_model(buffer)


@functools.cache
def _wrapped_class(base: type) -> type:
    # All are registered under one name: any of them can load what any other saved.
    attributes = {"_adasum_base": base, "__module__": __name__}
    return _register(type(f"Adasum{base.__name__}", (AdasumOptimizer, base), attributes))


def wrap(  # noqa: PLR0913, PLR0917 (one function for all that replicas exchange by)
    optimizer: keras.optimizers.Optimizer,
    mode: str = "delta",
    accumulate: int = 1,
    steps_per_sync: StepsPerSync = 1,
    divided_loss: bool | None = None,
    compression: Compression | None = None,
    sync: Sync | None = None,
    unused_variables: bool = False,
) -> keras.optimizers.Optimizer:
    """Lets `optimizer` combine the N replicas of an `AdasumStrategy` by Adasum.

    With replica gradients g_1 .. g_N and the optimizer's own update rule U:

        mode="delta":     d_r = U(w, g_r) - w  on every replica,   w <- w + Adasum(d_1, .., d_N)
        mode="gradient":  w <- U(w, Adasum(g_1, .., g_N)),         one identical step everywhere

    g_r is the gradient of the loss of the replica's own batch, whatever the loss. In `fit` Keras
    leaves out its division by N for this optimizer; in a loop of one's own, which divides the
    loss by N as `tf.distribute` asks, g_r is N times the gradient, before accumulation and
    clipping. `divided_loss` says otherwise. Weight decay is applied before d_r is taken, outside
    of it. d_r is what Keras' own rules add to w, with all its digits; of another rule it is the
    difference. In delta mode momenta stay with their replica (Keras' files hold those of rank 0's
    first one, `callbacks.BackupAndRestore` all); in gradient mode they are equal everywhere. Rules
    of the strategy may replace Adasum per variable.

    accumulate=K: g_r = Adasum(g_r1, .., g_rK) over K calls (micro-batches) of the replica, by each
    variable's rule, then one step as above. One device so gives what K ranks give; N replicas give
    what N * K ranks give, replica by replica, if N and K are powers of two, else a tree over N of
    trees over K. In delta mode this holds for SGD without momentum, whose step is proportional to
    the gradient; another rule steps once from the replica's combined gradient, not K times. With p
    the largest power of two <= K and F = K - p, micro-batches in the order of time are leaves 0, p,
    1, p + 1, .., F - 1, p + F - 1, F, .., p - 1 of the tree: what folds arrives together. ceil(log2
    K) results wait in variables of the optimizer. As under Keras' own accumulation, clipping (which
    ranks would do before they combine) and weight decay come with the step, `iterations` counts
    steps, and schedules are asked with the number of calls. The average of `use_ema` moves with the
    step. What a `LossScaleOptimizer` skips does not count as a call.

    steps_per_sync=K: K steps of every replica by itself, then w <- w_start + Adasum over the
    replicas of (w - w_start), with momenta as in delta mode. Weight decay also shrinks w_start,
    and so stays out of the change. Between the reductions replicas hold different weights; `fit`
    ends with a reduction, and `optimizer.synchronize()` asks for one earlier. K may differ: where
    rank p takes K_p steps, the round lasts for the largest K; p takes its steps in the first K_p
    calls and lets the gradients of the others go. `iterations` and schedules count all calls. With
    `compression` this is CFedAvg (arXiv:2106.07155), there with the mean.

    The optimizer itself is changed and returned: it becomes an instance of a subclass of its
    class, with its learning rate, variables and settings. Create it inside `strategy.scope()`.
    Without an AdasumStrategy, in a single process, it behaves as it did before, apart from
    `accumulate`. Of gradients that are `tf.IndexedSlices` (embeddings) the rows are exchanged, in
    delta mode those that the step changed; with `accumulate` they become dense.

    Args:
        optimizer: a Keras optimizer; in a `LossScaleOptimizer` the inner one is wrapped.
        mode: "delta" or "gradient".
        accumulate: micro-batches per step, from 1 to 65536; not with Keras' own
            `gradient_accumulation_steps`.
        steps_per_sync: steps between reductions, from 1 to 65536, or one number for each rank, as a
            list or a function of the rank; more than one in delta mode only, without `use_ema` and
            Keras' own `gradient_accumulation_steps`.
        divided_loss: whether the loss, and so its gradient, comes divided by N. None: in own
            loops it does, in `fit` and `train_on_batch` it does not. False: never, for own loops
            that take a plain mean or sum. True: always, for a `train_step` that divides by itself;
            Keras' own losses are then divided too.
        compression: how what is exchanged travels, such as `adasum.compression.Sign()`, with error
            feedback; None: as it is. `callbacks.BackupAndRestore` keeps the residuals, Keras' files
            do not.
        sync: when and with whom replicas meet, such as `adasum.sync.GroupAveraging()`, which says
            what is exchanged then; not with the other settings of that, which are `mode` (but with
            `Deadline`), `steps_per_sync` and `compression`, and `Lazy` not with `accumulate`. None:
            all, as these say.
        unused_variables: whether replicas may lack gradients of variables, or leave variables out
            of a call, each in its own way and differently in each step. What a replica lacks then
            counts as a gradient of zero; a variable that no replica has a gradient for stays as it
            is, with its slots. All variables travel in each step, and which of them are in use.
            False: all replicas have gradients of the same variables. Embeddings travel whole. Not
            with `accumulate`, `steps_per_sync`, `sync` and `compression`, nor for Adafactor.

    Returns:
        The same optimizer.

    Raises:
        TypeError: not a Keras optimizer, or one that cannot be wrapped; or `compression` is no
            codec, or `sync` no choice of `adasum.sync`.
        ValueError: a setting is unknown or does not go with the others, or the optimizer is
            wrapped already, or is built already and given `accumulate`, `steps_per_sync`, `sync` or
            `unused_variables`, or a list for `steps_per_sync` has not one number for each rank of
            the strategy.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.wrap(keras.optimizers.Adam(1e-3), mode="gradient")
        >>> isinstance(optimizer, keras.optimizers.Adam)
        True
        >>> tf_adasum.wrap(keras.optimizers.SGD(0.1), accumulate=4).get_config()["adasum"]["mode"]
        'delta'

    Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021,
    section 3 (the rule) and section 4 (applying it to the change of the weights).
    """
    steps = steps_of_ranks(steps_per_sync)
    rest = divided_loss, compression, sync, unused_variables
    return _wrapped(optimizer, _Settings(mode, accumulate, steps, *rest))


def _wrapped(
    optimizer: keras.optimizers.Optimizer, settings: _Settings
) -> keras.optimizers.Optimizer:
    """As `wrap`; what comes from a file may have numbers of other ranks until it takes a step."""
    check_flags(settings.mode, settings.divided_loss, settings.unused_variables)
    check_wrappable(optimizer, settings.mode)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        _wrapped(optimizer.inner_optimizer, settings)
        return optimizer
    check_settings(optimizer, settings.mode, settings.accumulate, settings.steps_per_sync)
    parts = _parts_of(optimizer, settings)
    parts.exchange.check(optimizer)
    # Swapping the class keeps everything a copy would lose: callable learning rates, weight
    # decay exclusions, slots, and the identity under which Keras tracks the optimizer.
    object.__setattr__(optimizer, "__class__", _wrapped_class(type(optimizer)))
    optimizer._adasum = parts
    optimizer._adasum_divided_loss = settings.divided_loss
    if optimizer.built:
        optimizer._build_parts()
    return optimizer


def _parts_of(optimizer: keras.optimizers.Optimizer, settings: _Settings) -> Parts:
    """What the settings ask for; raises where `sync` or `unused_variables` forbids another one."""
    mode, accumulate, steps_per_sync, _, compression, sync, unused_variables = settings
    exchange, plain_for = _exchange(mode, steps_per_sync), None
    if sync is not None:
        is_left = {
            "mode": mode == "delta" or getattr(sync, "has_modes", False),
            "steps_per_sync": steps_per_sync == 1,
            "compression": compression is None,
            "accumulate": accumulate == 1 or getattr(sync, "accumulates", False),
        }
        check_sync(sync, optimizer, **is_left)
        exchange = sync.exchange(mode)
        exchange.sync, plain_for = sync, f"sync={type(sync).__name__}"
    lacking = Lacking()
    if unused_variables:
        is_left = {
            "accumulate": accumulate == 1,
            "steps_per_sync": steps_per_sync == 1,
            "sync": sync is None,
            "compression": compression is None,
        }
        check_unused(optimizer, **is_left)
        lacking, plain_for = ZeroGradients(), "unused_variables"
    exchange.encoding = VariableEncoding(compression, plain_for)
    return Parts(_accumulation(optimizer, accumulate), exchange, lacking)


def _accumulation(optimizer: keras.optimizers.Optimizer, count: int) -> Accumulation:
    # As int: a configuration could not hold NumPy's, say.
    return MicroBatches(int(count)) if count > 1 else accumulation_of(optimizer)


def _exchange(mode: str, steps_per_sync: int | list[int]) -> Exchange:
    return LocalSteps(steps_per_sync) if most_steps(steps_per_sync) > 1 else _EXCHANGES[mode]()
