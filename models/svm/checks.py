"""What `models.svm.solver.fit` refuses, on all ranks at once.

A rank that refused alone would leave the others waiting.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from scipy import sparse

from models.svm.elimination import POLICIES
from models.svm.exchange import Exchange
from models.svm.rows import Matrix
from models.svm.settings import Settings
from tf_adasum.collectives.refusals import refusal, shown


class Problem(NamedTuple):
    """This rank's samples, checked.

    Attributes:
        samples: [n, d].
        labels: float64 [n], 1 or -1.
        numbers: int64 [n].
        total: samples of all ranks.
    """

    samples: Matrix
    labels: np.ndarray
    numbers: np.ndarray
    total: int


def checked_problem(
    samples: Matrix,
    labels: np.ndarray,
    settings: Settings,
    numbers: np.ndarray | None,
    exchange: Exchange,
) -> Problem:
    """Returns what all ranks can train on; collective.

    Args:
        samples: of `fit`, as the next three.
        labels: of them.
        settings: how to train.
        numbers: of the samples.
        exchange: the ranks.

    Raises:
        TypeError, ValueError: as `fit`.
    """
    error = _wrong_settings(settings) or _wrong_samples(samples, labels, numbers)
    _refuse_together(error, exchange)
    labels = np.asarray(labels, np.float64)
    of_ranks = np.zeros((exchange.size, 3))
    of_ranks[exchange.rank] = np.sum(labels > 0), np.sum(labels < 0), samples.shape[1]
    of_ranks = np.array(exchange.total(of_ranks.ravel().tolist())).reshape(-1, 3)
    is_sparse = exchange.total([float(sparse.issparse(samples))])[0]
    error = _unlike_settings(settings, exchange) or _wrong_together(of_ranks, is_sparse)
    _refuse_together(error, exchange)
    of_rank = of_ranks[:, :2].sum(axis=1).astype(np.int64)
    if numbers is None:
        numbers = of_rank[: exchange.rank].sum() + np.arange(len(labels))
    return Problem(samples, labels, np.asarray(numbers, np.int64), int(of_rank.sum()))


def _refuse_together(error: Exception | None, exchange: Exchange) -> None:
    refusing = exchange.most([0.0 if error is None else 1.0 + exchange.rank])[0]
    if error is not None:
        raise error
    if refusing:
        line = refusal(
            "all ranks' samples and settings to be as fit describes",
            f"others on rank {int(refusing) - 1}",
            "See that rank's error.",
        )
        raise ValueError(line)


def _wrong_settings(settings: Settings) -> Exception | None:
    kernel, advice = settings.kernel, "Pass such a Settings."
    checks = [
        ("a kernel rbf or linear", kernel.name, kernel.name in ("rbf", "linear")),
        ("a positive gamma", kernel.gamma, 0 < kernel.gamma < np.inf),
        ("a positive cost", settings.cost, 0 < settings.cost < np.inf),
        ("a positive tolerance", settings.tolerance, 0 < settings.tolerance < np.inf),
        (
            f"elimination to be one of {', '.join(POLICIES)}",
            settings.elimination,
            settings.elimination in POLICIES,
        ),
    ]
    for expected, received, is_well in checks:
        if not is_well:
            return ValueError(refusal(expected, shown(received), advice))
    return None


def _unlike_settings(settings: Settings, exchange: Exchange) -> Exception | None:
    """Ranks would take other steps, and their messages would not fit; collective."""
    digest = float(zlib.crc32(repr(settings).encode()))
    most, least = exchange.most([digest, -digest])
    if most == -least:
        return None
    return ValueError(
        refusal("the same settings on all ranks", f"here {settings}", "Pass the same everywhere.")
    )


def _wrong_samples(samples, labels, numbers) -> Exception | None:
    if not (isinstance(samples, np.ndarray) or (sparse.issparse(samples))):
        advice = "Pass one of these; a list by np.array(list)."
        return TypeError(refusal("samples as a NumPy array or CSR matrix", shown(samples), advice))
    if samples.ndim != 2 or (sparse.issparse(samples) and samples.format != "csr"):
        received = f"shape {samples.shape}, {getattr(samples, 'format', 'dense')}"
        return ValueError(
            refusal("samples of shape [n, d], csr if sparse", received, "Pass such samples.")
        )
    labels = np.asarray(labels)
    if labels.shape != (samples.shape[0],) or not np.isin(labels, (-1, 1)).all():
        received = f"labels of shape {labels.shape}, {shown(np.unique(labels)[:5])}"
        expected = f"{samples.shape[0]} labels, each 1 or -1"
        return ValueError(refusal(expected, received, "Map your classes to these two."))
    if numbers is not None and np.shape(numbers) != labels.shape:
        expected = f"{len(labels)} numbers of samples, or None"
        return ValueError(refusal(expected, f"shape {np.shape(numbers)}", "Pass one for each."))
    values = samples.data if sparse.issparse(samples) else samples
    if not np.isfinite(np.asarray(values, np.float64)).all():
        return ValueError(
            refusal("finite samples", "NaN or infinity", "Leave these out, or replace them.")
        )
    return None


def _wrong_together(of_ranks: np.ndarray, sparse_ranks: float) -> Exception | None:
    positive, negative = of_ranks[:, :2].sum(axis=0)
    if not (positive and negative):
        received = f"{positive:.0f} of 1, {negative:.0f} of -1 on all ranks"
        return ValueError(refusal("samples of both classes", received, "Pass both."))
    if len(set(of_ranks[:, 2])) > 1:
        received = f"{of_ranks[:, 2].astype(np.int64).tolist()}, rank by rank"
        return ValueError(refusal("samples of one d", received, "Pass the same columns."))
    if sparse_ranks not in (0, len(of_ranks)):
        received = f"CSR on {sparse_ranks:.0f} of {len(of_ranks)} ranks"
        advice = "Pass the same kind everywhere, also of no samples."
        return ValueError(refusal("samples of one kind", received, advice))
    return None
