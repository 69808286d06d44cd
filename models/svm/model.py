"""What training leaves: support vectors, and decisions by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.svm.kernels import Kernel
from models.svm.rows import Matrix


@dataclass(frozen=True)
class Model:
    """A trained support vector machine; equal, bit by bit, on all ranks.

        decision(x) = Σ_j a_j y_j K(x_j, x) + intercept

    Args:
        kernel: K.
        support: int64 [s], numbers of the support vectors in the whole data set, ascending.
        coefficients: a y of each, float64 [s].
        vectors: them, lifted (models.svm.kernels), [s, d + 2].
        intercept: -(b_up + b_low) / 2.
        objective: Σ a - ½ Σ_ij a_i a_j y_i y_j K_ij, which was maximised.
        gap: b_low - b_up over all samples.
        is_converged: whether the gap is within the tolerance.
        iterations: pairs that were moved.
        reconstructions: how often f of eliminated samples was computed anew.
        least_active: the fewest samples, of all ranks, that were active at a time.
        computed_columns: of the kernel matrix; two for each iteration without a cache.
    """

    kernel: Kernel
    support: np.ndarray
    coefficients: np.ndarray
    vectors: Matrix
    intercept: float
    objective: float
    gap: float
    is_converged: bool
    iterations: int
    reconstructions: int
    least_active: int
    computed_columns: int

    def decision(self, samples: Matrix) -> np.ndarray:
        """Decisions, of which the sign is the class.

        Args:
            samples: [n, d], as they were trained on.

        Returns:
            float64 [n].

        Example:
            >>> import numpy as np
            >>> from models.svm.solver import fit
            >>> model = fit(np.array([[0.0], [1.0]]), np.array([-1, 1]))
            >>> np.sign(model.decision(np.array([[0.1], [0.9]]))).tolist()
            [-1.0, 1.0]
        """
        rows = self.kernel.lift(samples)
        return (
            rows.expansion(0, self.vectors, self.coefficients, self.kernel.finish) + self.intercept
        )
