"""Signs, with a scale (1-bit Adam: Tang et al., ICML 2021, section 3)."""

import numpy as np


def q(x):
    """|x| / sqrt(n) sign(x), where the sign of 0 is +; NaN where an x is not finite."""
    if x.size == 0:
        return x
    unit = np.max(np.abs(x)).astype(np.float64)
    if not np.isfinite(unit):
        return np.full_like(x, np.nan)
    squares = np.square(x / (unit or 1.0))  # of x they might leave the range of float64
    scale = (unit * np.sqrt(np.mean(squares))).astype(x.dtype)
    return np.where(x < 0, -scale, scale)
