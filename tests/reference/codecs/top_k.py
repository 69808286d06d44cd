"""The largest magnitudes (Aji and Heafield, EMNLP 2017)."""

import numpy as np


def q(x, fraction):
    """The ceil(fraction n) values of largest magnitude, first ones first; NaN is the largest."""
    magnitude = np.where(np.isnan(x), np.inf, np.abs(x))
    order = np.lexsort((np.arange(x.size), -magnitude, ~np.isnan(x)))
    sent = order[: int(np.ceil(fraction * x.size))]
    kept = np.zeros_like(x)
    kept[sent] = x[sent]
    return kept
