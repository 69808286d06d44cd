"""CADA: ranks upload their gradients only where these say something new."""

from __future__ import annotations

import dataclasses

from typing_extensions import override

from tf_adasum.collectives.checked_numbers import checked_float, checked_int
from tf_adasum.optimizers.lazy_exchange import LazyExchange
from tf_adasum.optimizers.sync.sync import Sync


@dataclasses.dataclass(frozen=True)
class Lazy(Sync):
    """The mean of the gradients that ranks uploaded last; each uploads where it has news.

    In step k rank m has the gradient g_m of its batch at the weights w_k, and that of the same
    batch at earlier weights, g'_m. With e_m = g_m - g'_m it uploads g_m if

        |x_m|^2 > (c / d_max) sum over d = 1 .. d_max of |w_(k+1-d) - w_(k-d)|^2

    or if its last upload is D steps old, else it stays silent and its last upload counts on:

        rule 1:  earlier weights are those of a common snapshot, taken every D steps,
                 x_m = e_m - (e_m when it last uploaded)
        rule 2:  earlier weights are those at which it last uploaded,   x_m = e_m

    All ranks step by the mean of the last uploads. What travels: a few bytes of each rank, and the
    difference of an upload to the last one (`collectives/uploads.py` counts). Each step takes the
    gradients of the batch twice, so that it is for networks that are much slower than the
    computation. Adasum would need all last uploads at every rank; here it is the mean, whatever
    the strategy's rules say. It works in `fit` and `train_on_batch`, without `jit_compile`, and not
    with `batch_share` and `accumulate`. `optimizer.uploads` tells how often this rank uploaded.
    Layers that assign their own trainable weights (SpectralNormalization), or draw by `tf.random`,
    make all look new.

    Args:
        rule: 1 or 2.
        threshold: c, above 0: the larger, the fewer uploads.
        num_moves: d_max, from 1 to 1000.
        most_steps: D, at least 1.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> lazy = tf_adasum.sync.Lazy(threshold=1.0)
        >>> optimizer = tf_adasum.wrap(keras.optimizers.Adam(5e-4, amsgrad=True), sync=lazy)

    Source: Chen et al., "CADA: Communication-Adaptive Distributed Adam", AISTATS 2021
    (arXiv:2012.15469), Algorithm 1.
    """

    rule: int = 2
    threshold: float = 1.0
    num_moves: int = 10
    most_steps: int = 20

    def __post_init__(self) -> None:
        checked_int("rule", self.rule, 1, 2)
        checked_int("num_moves", self.num_moves, 1, 1000)
        checked_int("most_steps", self.most_steps, 1, 2**31)
        checked_float("threshold", self.threshold, 0, above=True)

    @override
    def exchange(self, mode: str) -> LazyExchange:
        del mode
        return LazyExchange(self.rule, self.threshold, self.num_moves, self.most_steps)
