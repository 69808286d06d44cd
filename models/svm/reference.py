"""How far a model is from scikit-learn's SVC, the reference for the solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from models.svm.model import Model
from models.svm.rows import Matrix
from models.svm.settings import Settings

if TYPE_CHECKING:
    from sklearn.svm import SVC

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


def train(samples: Matrix, labels: np.ndarray, settings: Settings) -> SVC:
    """Trains the reference on all samples.

    Args:
        samples: all, [n, d].
        labels: 1 or -1 each, [n].
        settings: of whom it is compared with. The reference ends at b_low - b_up <= ε, half as
            large a gap.
    """
    from sklearn.svm import SVC

    kernel = settings.kernel
    return SVC(C=settings.cost, kernel=kernel.name, gamma=kernel.gamma, tol=settings.tolerance).fit(
        samples, labels
    )


def compare(model: Model, reference: SVC, samples: Matrix, labels: np.ndarray) -> Comparison:
    """Compares a model with the reference.

    Args:
        model: what `fit` returned.
        reference: what `train` returned.
        samples: that both were trained on; the model's numbers are their rows.
        labels: theirs.
    """
    of_support = reference.dual_coef_
    dense = of_support.toarray() if sparse.issparse(of_support) else of_support
    coefficients = np.asarray(dense).ravel()
    # Σ a - ½ Σ_j a_j y_j Σ_i a_i y_i K_ij, and the inner sum is the decision without intercept.
    intercept = float(reference.intercept_[0])
    decisions = reference.decision_function(samples) - intercept
    of_pairs = coefficients @ decisions[reference.support_]
    objective = float(np.abs(coefficients).sum() - 0.5 * of_pairs)
    only_here = np.setdiff1d(model.support, reference.support_)
    only_there = np.setdiff1d(reference.support_, model.support)
    margins = (labels * (decisions + intercept))[np.concatenate([only_here, only_there])]
    return Comparison(
        objective=objective,
        relative_error=abs(model.objective - objective) / abs(objective),
        intercept_error=abs(model.intercept - intercept),
        only_here=only_here,
        only_there=only_there,
        inexcusable=int(np.sum(np.abs(margins - 1) > BORDERLINE_TOLERANCES * reference.tol)),
    )
