"""Magnitudes above a threshold of a sample (DCT: Gupta et al., KDD 2021, section 3)."""

import numpy as np

MOST_SAMPLED = 4096


def q(x, fraction):
    """At most ceil(fraction n) values of at least the threshold's magnitude; NaN is the largest."""
    if x.size == 0:
        return x.copy()
    keys = np.abs(x).view(np.uint32 if x.dtype == np.float32 else np.uint64)
    m = min(x.size, MOST_SAMPLED)
    sample = np.sort(keys[[i * x.size // m for i in range(m)]])[::-1]
    least = max(sample[int(np.ceil(fraction * m)) - 1], 1)
    high = int(least) >> (8 * x.itemsize - 20)
    begin = (high * 0x9E3779B9 % 2**32) * x.size >> 32
    order = np.roll(np.arange(x.size), -begin)
    sent = list(order[keys[order] >= least])
    count = int(np.ceil(fraction * x.size))
    wild = [place for place in sent[count:] if not np.isfinite(x[place])]
    sent = sent[:count]
    if wild:
        sent[-1] = wild[-1]
    kept = np.zeros_like(x)
    kept[sent] = x[sent]
    return kept
