"""Binary C-SVC by sequential minimal optimization over ranks, with elimination of samples.

Messages of an iteration: models.svm.exchange. Passes of an iteration over this rank's m active
samples, of 8 bytes each: argmin and argmax (2 read), the difference of two columns, scaled (4),
added to both forms of f (6); and for each column that is not cached, one product of matrix and
vector (m d) and the exponential in place (2). All of them shrink with m.

Source: S. Narasimhan, A. Vishnu, L. Holder, A. Hoisie, "Fast support vector machines using parallel
adaptive shrinking on distributed systems", 2014; T. Joachims, "Making large-scale SVM learning
practical", 1998, for elimination.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tf_adasum
from models.svm.checks import Problem, checked_problem
from models.svm.elimination import POLICIES, Elimination
from models.svm.exchange import Exchange, Expansion
from models.svm.model import Model
from models.svm.row_cache import RowCache
from models.svm.rows import Matrix
from models.svm.settings import Settings
from models.svm.step import best_step, moved
from models.svm.working_set import CANDIDATE_FIELDS, Candidate, WorkingSet

Progress = Callable[[int, float, int], None]


def fit(
    samples: Matrix,
    labels: np.ndarray,
    settings: Settings | None = None,
    communicator: tf_adasum.Communicator | None = None,
    numbers: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Model:
    """Trains on the samples of all ranks; collective.

        maximise Σ_i a_i - ½ Σ_ij a_i a_j y_i y_j K_ij,   0 <= a_i <= C,   Σ_i a_i y_i = 0

    Args:
        samples: this rank's, [n, d], a NumPy array or a CSR matrix of scipy.sparse, of the same
            kind and d on all ranks; n may differ, and be 0.
        labels: 1 or -1 each, [n].
        settings: how to train; None: the defaults.
        communicator: the ranks that train together; all ranks if None.
        numbers: of this rank's samples in the whole data set, int [n], each once; None: counted
            in the order of the ranks.
        progress: called on every rank every 1,000 iterations with the number of iterations, the
            gap b_low - b_up and how many samples of this rank are active.

    Returns:
        The `Model`, equal on all ranks.

    Raises:
        TypeError: on all ranks, if a rank's samples are neither.
        ValueError: on all ranks, if shapes, labels or settings are not as described, a sample is
            not finite, or one class is missing.
        TimeoutError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        RuntimeError: if a rank has ended.

    Example:
        >>> import numpy as np
        >>> from models.svm.solver import fit
        >>> fit(np.array([[0.0], [1.0], [9.0]]), np.array([-1, 1, 1])).support.tolist()
        [0, 1, 2]

    Source: see models/svm/solver.py.
    """
    exchange = Exchange(communicator or tf_adasum.world())
    settings = settings or Settings()
    problem = checked_problem(samples, labels, settings, numbers, exchange)
    training = _Training(problem, settings, exchange)
    gap = training.run(progress)
    return training.model(gap)


class _Training:
    """The state of one training on one rank."""

    PROGRESS_PERIOD = 1000

    def __init__(self, problem: Problem, settings: Settings, exchange: Exchange):
        self._settings, self._exchange = settings, exchange
        self._rows = settings.kernel.lift(problem.samples)
        self._set = WorkingSet(problem.labels, problem.numbers, self._rows.lengths, settings.cost)
        self._cache = RowCache(self._rows, settings.kernel, exchange, settings.cache_bytes)
        self._elimination = Elimination(
            POLICIES[settings.elimination], problem.total, 2 * settings.tolerance
        )
        self._total = self._least_active = problem.total
        self._iterations = 0
        self._mine = np.empty((2, CANDIDATE_FIELDS))
        self._pair: tuple[Candidate, Candidate]
        self._resize_cache()

    def run(self, progress: Progress | None) -> float:
        """Moves pairs until all samples are optimal; returns the gap."""
        elimination = self._elimination
        while True:
            positions = self._set.candidates(self._mine)
            self._pair = up, low = self._exchange.worst_pair(self._mine)
            gap = low.f - up.f
            is_at_limit = self._iterations >= self._settings.max_iterations
            if gap <= elimination.largest_gap() or is_at_limit:
                if not elimination.eliminated:
                    return gap
                self._reconstruct()
            elif elimination.is_due(self._iterations):
                self._eliminate()
            else:
                if progress and self._iterations % self.PROGRESS_PERIOD == 0:
                    progress(self._iterations, gap, self._set.active)
                self._move(positions)
                self._iterations += 1

    def _move(self, positions: tuple[int, int]) -> None:
        """Makes the best step of the worst pair; every rank works out the same one."""
        up, low = self._pair
        cost = self._settings.cost
        of_up, of_low, curvature = self._cache.columns(self._pair, positions)
        step = best_step(up, low, curvature, cost)
        self._set.move(step, of_up, of_low)
        for candidate, at, sign in ((up, positions[0], 1), (low, positions[1], -1)):
            if candidate.rank == self._exchange.rank:
                self._set.set_alpha(at, moved(candidate, step, cost, sign))

    def _eliminate(self) -> None:
        """Drops what can't take part now, if it is enough to pay for the moving of the others."""
        is_kept = self._set.kept(self._pair[0].f, self._pair[1].f)
        kept, dropped = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
        active, leaving = self._exchange.total([self._set.active, len(dropped)])
        if not self._elimination.is_worthwhile(int(active), int(leaving)):
            self._elimination.postpone(self._iterations)
            return
        order = np.concatenate([kept, dropped])
        self._cache.narrow(kept)
        self._rows.reorder(order)
        self._set.narrow(order, len(kept))
        self._resize_cache()
        active -= leaving
        self._least_active = min(self._least_active, int(active))
        self._elimination.note_eliminated(self._iterations, self._total - int(active))

    def _reconstruct(self) -> None:
        """Makes all samples active, with f as the samples whose a has changed make it."""
        found = self._joined(self._set.changes())
        change = self._rows.expansion(
            self._set.active, found.rows, found.coefficients, self._settings.kernel.finish
        )
        self._set.widen(change)
        self._resize_cache()
        self._elimination.note_reconstructed(self._iterations)

    def _resize_cache(self) -> None:
        active = self._set.active
        self._cache.resize(active, int(self._exchange.most([active])[0]))

    def _joined(self, coefficients: np.ndarray) -> Expansion:
        """The samples of all ranks whose coefficient is not 0."""
        mine = np.flatnonzero(coefficients)
        return self._exchange.expansion(
            self._rows.take(mine), coefficients[mine], self._set.numbers[mine]
        )

    def model(self, gap: float) -> Model:
        """What the training has come to, when all samples are active."""
        alpha, labels = self._set.alpha, self._set.labels
        # Σ_j a_j y_j K_ij = f_i + y_i.
        of_rank = alpha.sum() - 0.5 * (alpha * labels) @ (self._set.f() + labels)
        found = self._joined(alpha * labels)
        order = np.argsort(found.numbers)
        up, low = self._pair
        return Model(
            kernel=self._settings.kernel,
            support=found.numbers[order],
            coefficients=found.coefficients[order],
            vectors=found.rows[order],
            intercept=-(up.f + low.f) / 2,
            objective=self._exchange.total([of_rank])[0],
            gap=gap,
            is_converged=gap <= 2 * self._settings.tolerance,
            iterations=self._iterations,
            reconstructions=self._elimination.reconstructions,
            least_active=self._least_active,
            computed_columns=self._cache.computed,
        )
