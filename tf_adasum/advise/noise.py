"""How noisy gradients are, and what follows for averaging and for Adasum of many of them.

With G the gradient of all data, Sigma the covariance of one example's gradient and S = tr(Sigma),
the gradient g of B examples has E |g|^2 = |G|^2 + S / B. Two batch sizes tell both terms.

Source: McCandlish, Kaplan, Amodei and the OpenAI Dota Team, "An Empirical Model of Large-Batch
Training", 2018, section 2.2, section 2.3 (examples and steps) and appendix A.1 (the estimators).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Noise(NamedTuple):
    """Of each variable.

    Attributes:
        squared_gradient: float64 [variables], estimates of |G|^2; without bias, so also below 0.
        trace: float64 [variables], estimates of S = tr(Sigma).
    """

    squared_gradient: np.ndarray
    trace: np.ndarray

    @property
    def scale(self) -> float:
        """B_noise = S / |G|^2 of all variables, in examples; infinite where |G|^2 is below 0."""
        squared, trace = float(self.squared_gradient.sum()), float(self.trace.sum())
        return max(trace, 0.0) / squared if squared > 0 else math.inf


def estimate(small: int, small_norms: np.ndarray, big: int, big_norms: np.ndarray) -> Noise:
    """Finds |G|^2 and S from mean squared norms at two batch sizes, without bias.

    |G|^2 = (big |g_big|^2 - small |g_small|^2) / (big - small)
    S = (|g_small|^2 - |g_big|^2) / (1 / small - 1 / big)

    Args:
        small: examples of a batch.
        small_norms: float64 [variables], |g|^2 of such batches, in the mean.
        big: examples of a larger batch.
        big_norms: the same for these.

    Returns:
        The `Noise` of these variables.

    Example:
        >>> import numpy as np
        >>> from tf_adasum.advise.noise import estimate
        >>> estimate(1, np.array([5.0]), 4, np.array([2.0])).scale  # |G|^2 = 1, S = 4
        4.0

    Source: McCandlish et al., 2018, appendix A.1.
    """
    squared = (big * big_norms - small * small_norms) / (big - small)
    return Noise(squared, (small_norms - big_norms) / (1 / small - 1 / big))


def wasted_epochs(ranks: int, batch: int, scale: float) -> float:
    """Epochs that averaging wastes for each one that a rank alone would need.

    Training with batches of B takes E = E_min (1 + B / B_noise) examples, at the rate that is best
    for B; N ranks average B = N batch: wasted = E(N batch) / E(batch) - 1.

    Args:
        ranks: N.
        batch: examples of each rank's step.
        scale: B_noise, in examples.

    Source: McCandlish et al., 2018, section 2.3.
    """
    if math.isinf(scale):
        return 0.0
    return (ranks - 1) * batch / (scale + batch)


class Combined(NamedTuple):
    """What Adasum makes of N gradients.

    Attributes:
        orthogonality: |Adasum|^2 / sum |g_i|^2, from 1 / N to 1.
        gain: how far it goes along G, in steps of one rank: 1 as the mean, N as the sum.
    """

    orthogonality: float
    gain: float


def expected_adasum(noise: Noise, batch: int, ranks: int) -> Combined:
    """Predicts Adasum of N independent gradients, from how noisy each is.

    On level k of the tree two vectors meet that have E |a|^2 = q_k and E a.b = p_k. With dot
    products as expected, c = 1 - p_k / (2 q_k) is the weight of both, and of each variable

        p_0 = |G|^2,  q_0 = |G|^2 + S / batch,
        p_(k+1) = 4 c^2 p_k,  q_(k+1) = c^2 (2 q_k + 2 p_k),  gain_(k+1) = 2 c gain_k.

    Between powers of two it is interpolated along log2 N.

    Args:
        noise: of each variable; estimates below 0 count as 0.
        batch: examples of each gradient.
        ranks: N.

    Returns:
        Of all variables together.

    Source: Maleki et al., MLSys 2021, section 3, for the rule; the recursion is ours.
    """
    cross = np.maximum(noise.squared_gradient, 0)
    square = np.maximum(cross + np.maximum(noise.trace, 0) / batch, np.finfo(float).tiny)
    of_leaves, squared_gradient = square.sum(), cross.sum()
    gain = np.ones_like(cross)
    found = [Combined(1.0, 1.0)]
    for level in range(math.ceil(math.log2(max(ranks, 1)))):
        weight = 1 - cross / (2 * square)
        cross, square = 4 * weight**2 * cross, weight**2 * (2 * square + 2 * cross)
        gain = gain * 2 * weight
        kept = square.sum() / (2 ** (level + 1) * of_leaves)
        along = np.maximum(noise.squared_gradient, 0) @ gain
        is_known = squared_gradient > 0
        found.append(
            Combined(
                float(kept), float(along / squared_gradient if is_known else 2.0 ** (level + 1))
            )
        )
    depth = math.log2(max(ranks, 1))
    below = found[math.floor(depth)]
    above, part = found[math.ceil(depth)], depth % 1
    return Combined(*((1 - part) * low + part * high for low, high in zip(below, above)))
