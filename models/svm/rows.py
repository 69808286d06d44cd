"""Rows of lifted samples (models.svm.kernels), dense and sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy import sparse

Matrix = np.ndarray | sparse.csr_matrix | sparse.csr_array
Finish = Callable[[np.ndarray], np.ndarray]
# Of a block of kernel values: large enough for a fast product of matrices, small for the caches.
_BLOCK_VALUES = 2**19


class Rows(Protocol):
    """Lifted samples of one rank, of which the first `m` are in play.

    A *message* is one sample as float64 [length], as ranks send it; a *sample* is what
    `received` makes of it, to be multiplied with rows.
    """

    @property
    def lengths(self) -> np.ndarray:
        """Of the rows' messages, int64 [n]."""

    def message(self, index: int) -> np.ndarray:
        """The message of a row."""

    def received(self, message: np.ndarray) -> object:
        """The sample of a message."""

    def product(self, one: object, other: object) -> float:
        """lifted(one) · mirrored(other)."""

    def products(self, sample: object, begin: int, end: int) -> np.ndarray:
        """Row · mirrored(sample), float64 [end - begin], for the rows from `begin` to `end`."""

    def reorder(self, order: np.ndarray) -> None:
        """Puts row order[k] at k, for the first len(order) rows."""

    def take(self, indices: np.ndarray) -> Matrix:
        """Rows as a matrix, to be sent or kept."""

    def expansion(
        self, begin: int, others: Matrix, coefficients: np.ndarray, finish: Finish
    ) -> np.ndarray:
        """Σ_j coefficients[j] finish(row · mirrored(others[j])) for the rows from `begin`.

        Returns:
            float64 [n - begin].
        """


class DenseRows:
    """Rows of a NumPy array; see `Rows`."""

    def __init__(self, lifted: np.ndarray):
        self._matrix = np.ascontiguousarray(lifted)

    @property
    def lengths(self) -> np.ndarray:
        """See `Rows`."""
        return np.full(len(self._matrix), self._matrix.shape[1], np.int64)

    def message(self, index: int) -> np.ndarray:
        """See `Rows`."""
        return self._matrix[index]

    def received(self, message: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Rows`; a sample is kept mirrored and as it is."""
        return _mirrored(message), message.copy()

    def product(self, one: tuple, other: tuple) -> float:
        """See `Rows`."""
        return float(one[1] @ other[0])

    def products(self, sample: tuple, begin: int, end: int) -> np.ndarray:
        """See `Rows`."""
        return self._matrix[begin:end] @ sample[0]

    def reorder(self, order: np.ndarray) -> None:
        """See `Rows`."""
        self._matrix[: len(order)] = self._matrix[order]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """See `Rows`."""
        return self._matrix[indices]

    def expansion(
        self, begin: int, others: np.ndarray, coefficients: np.ndarray, finish: Finish
    ) -> np.ndarray:
        """See `Rows`."""
        mirrored = _mirrored(others).T
        return _by_blocks(
            lambda block: self._matrix[block] @ mirrored,
            range(begin, len(self._matrix)),
            coefficients,
            finish,
        )


class SparseRows:
    """Rows of a CSR matrix; a message holds values and then columns; see `Rows`."""

    def __init__(self, lifted: sparse.csr_matrix):
        self._matrix = lifted
        self._begin, self._play = 0, lifted
        # Zero but while a sample is multiplied.
        self._vector = np.zeros(lifted.shape[1])

    @property
    def lengths(self) -> np.ndarray:
        """See `Rows`."""
        return 2 * np.diff(self._matrix.indptr).astype(np.int64)

    def message(self, index: int) -> np.ndarray:
        """See `Rows`."""
        of_row = slice(*self._matrix.indptr[index : index + 2])
        return np.concatenate([self._matrix.data[of_row], self._matrix.indices[of_row]])

    def received(self, message: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Rows`; a sample is its values and its columns."""
        values, columns = np.split(message, 2)
        return values.copy(), columns.astype(np.int64)

    def product(self, one: tuple, other: tuple) -> float:
        """See `Rows`."""
        columns = self._fill(*other)
        product = float(one[0] @ self._vector[one[1]])
        self._vector[columns] = 0
        return product

    def products(self, sample: tuple, begin: int, end: int) -> np.ndarray:
        """See `Rows`."""
        columns = self._fill(*sample)
        if (self._begin, self._play.shape[0]) != (begin, end - begin):
            # Slices of CSR matrices are copies: the part in play is kept until it changes.
            self._begin, self._play = begin, self._matrix[begin:end]
        products = self._play @ self._vector
        self._vector[columns] = 0
        return products

    def _fill(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Writes a mirrored sample into the vector; returns the columns to be zeroed again."""
        columns = _mirrored_columns(columns, len(self._vector))
        self._vector[columns] = values
        return columns

    def reorder(self, order: np.ndarray) -> None:
        """See `Rows`."""
        rest = np.arange(len(order), self._matrix.shape[0])
        order = np.concatenate([order, rest])
        self._matrix = self._matrix[order]
        self._begin, self._play = 0, self._matrix

    def take(self, indices: np.ndarray) -> sparse.csr_matrix:
        """See `Rows`."""
        return self._matrix[indices]

    def expansion(
        self, begin: int, others: sparse.csr_matrix, coefficients: np.ndarray, finish: Finish
    ) -> np.ndarray:
        """See `Rows`."""
        columns = _mirrored_columns(others.indices, others.shape[1])
        mirrored = sparse.csr_matrix((others.data, columns, others.indptr), others.shape).T.tocsr()
        return _by_blocks(
            lambda block: (self._matrix[block] @ mirrored).toarray(),
            range(begin, self._matrix.shape[0]),
            coefficients,
            finish,
        )


def _mirrored(rows: np.ndarray) -> np.ndarray:
    """The last two columns change places."""
    mirrored = rows.copy()
    mirrored[..., -2], mirrored[..., -1] = rows[..., -1], rows[..., -2]
    return mirrored


def _mirrored_columns(columns: np.ndarray, number: int) -> np.ndarray:
    return np.where(columns >= number - 2, 2 * number - 3 - columns, columns)


def _by_blocks(products, rows: range, coefficients: np.ndarray, finish: Finish) -> np.ndarray:
    sums = np.zeros(len(rows))
    size = max(1, _BLOCK_VALUES // max(1, len(coefficients)))
    for first in range(0, len(rows), size):
        block = slice(rows.start + first, min(rows.start + first + size, rows.stop))
        sums[first : first + size] = finish(products(block)) @ coefficients
    return sums
