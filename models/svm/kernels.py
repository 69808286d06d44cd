"""Kernels, and how they are made of inner products.

Every kernel here is a function of one inner product, so that a column of the kernel matrix is one
product of matrix and vector and at most one more pass. For RBF the samples are *lifted*:

    x -> (√(2γ) x, -γ|x|², 1),   mirrored x -> (√(2γ) x, 1, -γ|x|²)
    lifted(x) · mirrored(z) = -γ|x - z|²

The linear kernel takes the samples as they are, in two columns more of zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from models.svm.rows import DenseRows, Matrix, Rows, SparseRows


@dataclass(frozen=True)
class Kernel:
    """K(x, z) = exp(-γ|x - z|²) or x · z.

    Args:
        name: "rbf" or "linear".
        gamma: γ of "rbf", positive.

    Example:
        >>> Kernel("linear").finish(np.array([2.0]))
        array([2.])
    """

    name: str = "rbf"
    gamma: float = 1.0

    def finish(self, products: np.ndarray) -> np.ndarray:
        """Makes kernel values of products lifted · mirrored, in place, and returns them."""
        return np.exp(products, out=products) if self.name == "rbf" else products

    def value(self, product: float) -> float:
        """The same of one product; RBF's would be above 1 by rounding only."""
        return math.exp(min(product, 0.0)) if self.name == "rbf" else product

    def lift(self, samples: Matrix) -> Rows:
        """Returns the samples as the rows that the solver works on.

        Args:
            samples: [n, d], a NumPy array or a CSR matrix of scipy.sparse.

        Returns:
            `DenseRows` or `SparseRows`, float64 [n, d + 2].
        """
        scale, slope = (2 * self.gamma) ** 0.5, -self.gamma
        if self.name == "linear":
            scale, slope = 1.0, 0.0
        one = float(self.name == "rbf")
        if sparse.issparse(samples):
            matrix = sparse.csr_matrix(samples, dtype=np.float64)
            squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
            added = np.column_stack([slope * squares, np.full(len(squares), one)])
            lifted = sparse.hstack([matrix * scale, sparse.csr_matrix(added)], format="csr")
            lifted.eliminate_zeros()
            return SparseRows(lifted)
        matrix = np.asarray(samples, np.float64)
        squares = np.einsum("nd,nd->n", matrix, matrix)
        return DenseRows(
            np.column_stack([matrix * scale, slope * squares, np.full(len(squares), one)])
        )
