"""Count sketches (Charikar et al., 2002), with exact values (Ivkin et al., arXiv:1903.04488)."""

import numpy as np

from tests.reference.sketched import hashes


def q(x, fraction, sketch_fraction, rows):
    """The ceil(fraction n) values of largest estimate, first ones first."""
    if not np.all(np.isfinite(x)):
        return np.full_like(x, np.nan)
    columns = max(1, int(sketch_fraction * x.size / rows))
    of_rows = []
    for column, sign in hashes(x.size, rows, columns):
        row = np.zeros(columns, x.dtype)
        np.add.at(row, column, sign.astype(x.dtype) * x)
        of_rows.append(sign.astype(x.dtype) * row[column])
    estimates = np.sort(of_rows, axis=0)
    estimates = np.abs(estimates[(rows - 1) // 2] + estimates[rows // 2])
    sent = np.argsort(-estimates, kind="stable")[: int(np.ceil(fraction * x.size))]
    kept = np.zeros_like(x)
    kept[sent] = x[sent]
    return kept
