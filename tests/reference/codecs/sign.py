"""Signs, with a scale (1-bit Adam: Tang et al., ICML 2021, section 3)."""

import numpy as np


def q(x):
    """|x| / sqrt(n) sign(x), where the sign of 0 is +; NaN where an x is not finite."""
    if x.size == 0:
        return x
    scale = np.sqrt(np.mean(np.square(x, dtype=np.float64)))
    scale = np.where(np.isfinite(scale), scale, np.nan).astype(x.dtype)
    return np.where(x < 0, -scale, scale)
