"""What ranks tell each other, by the collectives of tf_adasum, which wait for a limited time.

In each iteration every rank must learn which two samples of all are worst, their a and y, and,
unless it has them, their rows. Which rows it has every rank knows of every other, since all cache
the same ones (models.svm.row_cache). So an iteration costs

* one allreduce of 80 bytes for each rank: a table with a line for each rank, zero but for its own,
  is summed, which makes it an allgather, of which all then pick the worst and know it all, without
  a message from its owner. A min-loc would have to be followed by one;
* where rows are new, one allreduce of both together, zero but at their owners.

Sums with zeros are exact, so all ranks have the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from scipy import sparse

import tf_adasum
from models.svm.rows import Matrix
from models.svm.working_set import CANDIDATE_FIELDS, Candidate


class Expansion(NamedTuple):
    """Σ_j coefficients[j] K(rows[j], x), of samples of all ranks; equal on all of them.

    Attributes:
        rows: lifted, [s, d + 2].
        coefficients: float64 [s].
        numbers: int64 [s], of the samples in the whole data set.
    """

    rows: Matrix
    coefficients: np.ndarray
    numbers: np.ndarray


class Exchange:
    """The messages of a training.

    Args:
        communicator: the ranks that train together.

    Attributes:
        rank, size: of the communicator.
    """

    def __init__(self, communicator: tf_adasum.Communicator):
        self._communicator = communicator
        self.rank, self.size = communicator.rank, communicator.size
        self._table = np.zeros((self.size, 2, CANDIDATE_FIELDS))

    def worst_pair(self, mine: np.ndarray) -> tuple[Candidate, Candidate]:
        """The worst of I_up and of I_low of all ranks; the lowest rank's where several are equal.

        Args:
            mine: float64 [2, CANDIDATE_FIELDS], of `WorkingSet.candidates`.
        """
        table = self._table
        if self.size > 1:
            table[:] = 0
        table[self.rank] = mine
        self._sum(table, "svm candidates")
        ranks = int(table[:, 0, 0].argmin()), int(table[:, 1, 0].argmax())
        up, low = (
            Candidate(f, int(number), alpha, label, int(length), rank)
            for side, rank in enumerate(ranks)
            for f, number, alpha, label, length in (table[rank, side].tolist(),)
        )
        return up, low

    def messages(self, lengths: list[int], mine: list[np.ndarray | None]) -> list[np.ndarray]:
        """Rows' messages, each from the rank that has it.

        Args:
            lengths: of each.
            mine: those of this rank; None for the others.
        """
        if self.size == 1:
            return [message for message in mine if message is not None]
        buffer = np.zeros(sum(lengths))
        parts = np.split(buffer, np.cumsum(lengths)[:-1])
        for part, message in zip(parts, mine):
            if message is not None:
                part[:] = message
        self._sum(buffer, "svm rows")
        return parts

    def total(self, values: list[float]) -> list[float]:
        """Sums over all ranks."""
        return self._reduced(values, "sum")

    def most(self, values: list[float]) -> list[float]:
        """Maxima over all ranks."""
        return self._reduced(values, "max")

    def expansion(self, rows: Matrix, coefficients: np.ndarray, numbers: np.ndarray) -> Expansion:
        """Joins the ranks' samples.

        Args:
            rows: of this rank.
            coefficients: float64 [number of rows].
            numbers: int64 [number of rows].
        """
        if self.size == 1:
            return Expansion(rows, coefficients, numbers)
        if not sparse.issparse(rows):
            return Expansion(*self._gather([rows, coefficients, numbers], "svm expansion"))
        lengths = np.diff(rows.indptr).astype(np.int64)
        parts = [rows.data, rows.indices, lengths, coefficients, numbers]
        data, columns, lengths, coefficients, numbers = self._gather(parts, "svm sparse expansion")
        ends = np.concatenate([[0], np.cumsum(lengths)])
        joined = sparse.csr_matrix((data, columns, ends), (len(lengths), rows.shape[1]))
        return Expansion(joined, coefficients, numbers)

    def _gather(self, arrays: list[np.ndarray], name: str) -> list[np.ndarray]:
        with tf.device("CPU:0"):
            tensors = [tf.constant(array) for array in arrays]
            gathered = tf_adasum.allgather(tensors, self._communicator, name)
        return [tensor.numpy() for tensor in gathered]

    def _reduced(self, values: list[float], reduction: str) -> list[float]:
        array = np.array(values, np.float64)
        if self.size > 1:
            tf_adasum.allreduce_arrays(array, reduction, self._communicator, f"svm {reduction}")
        return array.tolist()

    def _sum(self, array: np.ndarray, name: str) -> None:
        if self.size > 1:
            tf_adasum.allreduce_arrays(array, "sum", self._communicator, name)
