"""What a support vector machine is trained with."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.svm.kernels import Kernel


@dataclass(frozen=True)
class Settings:
    """How to train.

    Args:
        kernel: K.
        cost: C, the upper bound of every a.
        tolerance: ε; the end is where b_low - b_up <= 2 ε.
        elimination: a name of models.svm.elimination.POLICIES.
        cache_bytes: of each rank, for columns of the kernel matrix.
        max_iterations: after so many training ends anyway, and says that it has not converged.
    """

    kernel: Kernel = field(default_factory=Kernel)
    cost: float = 1.0
    tolerance: float = 1e-3
    elimination: str = "aggressive"
    cache_bytes: int = 200_000_000
    max_iterations: int = 10_000_000
