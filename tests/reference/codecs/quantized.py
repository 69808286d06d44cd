"""A few bits a value, rounded at random (QSGD: Alistarh et al., NeurIPS 2017, section 3)."""

import numpy as np


def random(x):
    """In [0, 1), of x's place and its high bits as float32: MurmurHash3's mixing of 32 bits."""
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        bits = bits >> np.uint32(12) ^ np.arange(x.size, dtype=np.uint32) * np.uint32(0x9E3779B9)
        bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        bits = (bits ^ bits >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return ((bits ^ bits >> np.uint32(16)) >> np.uint32(8)).astype(x.dtype) * x.dtype.type(2**-24)


def q(x, bits):
    """s / L floor(x L / s + u), s = max |x|, L = 2^(bits - 1) - 1; NaN where an x is not finite."""
    levels = x.dtype.type(2 ** (bits - 1) - 1)
    scale = np.max(np.abs(x), initial=0)
    if not np.isfinite(scale):
        return np.full_like(x, np.nan)
    of_type = np.finfo(x.dtype)
    scale = np.minimum(scale, of_type.max * (1 - 4 * of_type.eps))  # s / L L may round above s
    if scale == 0:
        return np.zeros_like(x)
    level = np.floor(x / scale * levels + (random(x) + levels)) - levels
    return np.clip(level, -levels, levels) * (scale / levels)
