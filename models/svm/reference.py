"""How far a model is from scikit-learn's SVC, the reference for the solution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.svm.kernels import Matrix
from models.svm.model import Model
from models.svm.settings import Settings

# A support vector that one solution has and the other has not is excused where it lies on the
# margin, within so many tolerances: there a = 0 and a small a are both optimal within them.
BORDERLINE_TOLERANCES = 4


class Comparison(NamedTuple):
    """A model beside the reference.

    Attributes:
        objective: of the reference.
        relative_error: of the model's objective.
        intercept_error: absolute.
        only_here: support vectors that the reference has not, int64.
        only_there: those that the model has not.
        inexcusable: of both, how many do not lie on the margin.
    """

    objective: float
    relative_error: float
    intercept_error: float
    only_here: np.ndarray
    only_there: np.ndarray
    inexcusable: int


def compare(model: Model, samples: Matrix, labels: np.ndarray, settings: Settings) -> Comparison:
    """Trains scikit-learn's SVC on all samples and compares.

    Args:
        model: what `fit` returned.
        samples: all, [n, d]; the model's numbers are their rows.
        labels: 1 or -1 each, [n].
        settings: of the model. The reference has the same tolerance: ε, where libsvm ends at
            b_low - b_up <= ε.
    """
    from sklearn.svm import SVC

    kernel = settings.kernel
    reference = SVC(
        C=settings.cost, kernel=kernel.name, gamma=kernel.gamma, tol=settings.tolerance
    ).fit(samples, labels)
    coefficients = np.asarray(
        reference.dual_coef_.todense() if _is_sparse(reference) else reference.dual_coef_
    ).ravel()
    # Σ a - ½ Σ_j a_j y_j Σ_i a_i y_i K_ij, and the inner sum is the decision without intercept.
    intercept = float(reference.intercept_[0])
    decisions = reference.decision_function(reference.support_vectors_) - intercept
    objective = float(np.abs(coefficients).sum() - 0.5 * coefficients @ decisions)
    only_here = np.setdiff1d(model.support, reference.support_)
    only_there = np.setdiff1d(reference.support_, model.support)
    differing = np.concatenate([only_here, only_there])
    margins = (
        labels[differing] * reference.decision_function(samples[differing])
        if len(differing)
        else np.empty(0)
    )
    limit = BORDERLINE_TOLERANCES * settings.tolerance
    return Comparison(
        objective=objective,
        relative_error=abs(model.objective - objective) / abs(objective),
        intercept_error=abs(model.intercept - intercept),
        only_here=only_here,
        only_there=only_there,
        inexcusable=int(np.sum(np.abs(margins - 1) > limit)),
    )


def _is_sparse(reference) -> bool:
    return hasattr(reference.dual_coef_, "todense")
