"""1-bit Adam: Adam whose momenta travel as signs once its variance is frozen."""

from __future__ import annotations

import keras
from typing_extensions import override

from tf_adasum.optimizers.frozen_variance import FrozenVarianceOptimizer


@keras.saving.register_keras_serializable("tf_adasum")
class OneBitAdam(FrozenVarianceOptimizer):
    """Adam that exchanges gradients for a while and then momenta, encoded; it needs no `wrap`.

    With the gradients g_1 .. g_N of the replicas of an `AdasumStrategy`, learning rate r and the
    step t from 1, in the first F = freeze_step steps

        g = mean(g_1, .., g_N),   m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2

    as Adam, and afterwards, while v stays,

        m <- C-mean(b1 m + (1 - b1) g_1, .., b1 m + (1 - b1) g_N)

    where C-mean is the allreduce of tensors that travel encoded, with error feedback; in each step

        w <- w - r sqrt(1 - b2^min(t, F)) / (1 - b1^t) m / (sqrt(v) + e)

    but weights whose v is zero at step F stay. Small variables travel as they are. The
    residuals are kept by `callbacks.BackupAndRestore`. With one replica nothing is exchanged.

    Args:
        learning_rate: r, a float, a schedule, or a callable that returns it.
        freeze_step: F, at least 1; the paper takes 15 to 25 % of the steps.
        beta_1: b1.
        beta_2: b2.
        epsilon: e.
        compression: C; None: `adasum.compression.Sign()`.
        reduction: "mean", or "adasum" in its place, of gradients and of momenta.
        **kwargs: what all Keras optimizers take: name, weight_decay, clipnorm, use_ema and so on.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import keras, tf_adasum
        >>> with tf_adasum.AdasumStrategy().scope():
        ...     optimizer = tf_adasum.optimizers.OneBitAdam(1e-3, freeze_step=200)

    Source: Tang et al., "1-bit Adam", ICML 2021, Algorithm 1.
    """

    @override
    def update_variable(self, variable, index, learning_rate):
        self.assign_sub(variable, learning_rate * self.direction(index))
