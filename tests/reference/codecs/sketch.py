"""Count sketches (Charikar et al., 2002), with exact values (Ivkin et al., arXiv:1903.04488)."""

import numpy as np

from tests.reference.sketched import hashes, splitmix


def q(x, fraction, sketch_fraction, rows):
    """The ceil(fraction n) values of largest estimate, first ones first."""
    if not np.all(np.isfinite(x)):
        return np.full_like(x, np.nan)
    columns = max(1, int(sketch_fraction * x.size / rows))
    factors = splitmix(2 * rows, seed_of(x)).reshape(rows, 2)
    of_rows = []
    for column, sign in hashes(x.size, columns, factors):
        row = np.zeros(columns, x.dtype)
        np.add.at(row, column, sign.astype(x.dtype) * x)
        of_rows.append(sign.astype(x.dtype) * row[column])
    estimates = np.sort(of_rows, axis=0)
    estimates = np.abs(estimates[(rows - 1) // 2] + estimates[rows // 2])
    sent = np.argsort(-estimates, kind="stable")[: int(np.ceil(fraction * x.size))]
    kept = np.zeros_like(x)
    kept[sent] = x[sent]
    return kept


def seed_of(x):
    """Of exponent and three bits of the mantissa of up to 32 values at even distances."""
    number = min(x.size, 32)
    sampled = x[np.arange(number) * x.size // max(number, 1)]
    bits = sampled.view(f"u{x.itemsize}").astype(np.uint64)
    magnitude = bits & np.uint64(2 ** (8 * x.itemsize - 1) - 1)
    high = magnitude >> np.uint64(np.finfo(x.dtype).nmant - 3)
    seed = np.uint64(0)
    for value in high:
        (seed,) = splitmix(1, seed ^ value)
    return seed
