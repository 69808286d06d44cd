"""SMO over the ranks against scikit-learn's SVC: the same optimum, with and without elimination."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mpi4py import MPI
from scipy import sparse
from sklearn.svm import SVC

import tf_adasum
from models.svm import data, reference
from models.svm.elimination import POLICIES, Policy
from models.svm.kernels import Kernel
from models.svm.settings import Settings
from models.svm.solver import fit

ATTRIBUTES = ("support", "coefficients", "intercept", "objective", "iterations")


def _samples(number=300, seed=0):
    """Two classes that overlap, in five dimensions, and a third of the values 0."""
    random = np.random.default_rng(seed)
    labels = random.choice([-1, 1], number)
    samples = random.normal(size=(number, 5)) + 0.7 * labels[:, None]
    return np.where(random.random(samples.shape) < 1 / 3, 0, samples), labels


def _fit(samples, labels, settings, numbers=None):
    """Trains on the samples dealt like cards, or on those that `numbers` gives this rank."""
    rank, size = tf_adasum.rank(), tf_adasum.size()
    mine = np.arange(rank, len(labels), size) if numbers is None else numbers
    model = fit(samples[mine], labels[mine], settings, numbers=mine)
    of_ranks = MPI.COMM_WORLD.allgather(_bits(model))
    assert of_ranks == [of_ranks[0]] * size, "all ranks have the same model, bit by bit"
    return model


def _bits(model):
    vectors = model.vectors.toarray() if sparse.issparse(model.vectors) else model.vectors
    values = [np.asarray(getattr(model, name)) for name in ATTRIBUTES]
    return [value.tobytes() for value in (*values, np.asarray(vectors))]


def _check(model, samples, labels, settings):
    """The optimum of SVC, and the conditions of optimality from the dense kernel matrix."""
    assert model.is_converged and model.gap <= 2 * settings.tolerance
    exact = dataclasses.replace(settings, tolerance=min(settings.tolerance, 1e-5))
    theirs = reference.train(samples, labels, exact)
    found = reference.compare(model, theirs, samples, labels)
    assert found.relative_error < 1e-4
    assert found.inexcusable == 0, found
    # Up to the tolerance, since every intercept between b_low and b_up is as good.
    assert found.intercept_error < 5 * settings.tolerance
    alpha = np.zeros(len(labels))
    alpha[model.support] = model.coefficients * labels[model.support]
    assert alpha.min() >= 0 and alpha.max() <= settings.cost
    assert model.coefficients.sum() == pytest.approx(0, abs=1e-9 * settings.cost)
    f = _kernel_matrix(samples, settings.kernel) @ (alpha * labels) - labels
    in_up = np.where(labels > 0, alpha < settings.cost, alpha > 0)
    in_low = np.where(labels > 0, alpha > 0, alpha < settings.cost)
    gap = f[in_low].max() - f[in_up].min()
    assert gap == pytest.approx(model.gap, abs=1e-9 * max(1, settings.cost))
    np.testing.assert_allclose(model.decision(samples), f + labels + model.intercept, atol=1e-9)


def _kernel_matrix(samples, kernel):
    dense = samples.toarray() if sparse.issparse(samples) else samples
    if kernel.name == "linear":
        return dense @ dense.T
    squares = (dense**2).sum(axis=1)
    return np.exp(-kernel.gamma * (squares[:, None] + squares - 2 * dense @ dense.T))


@pytest.mark.parametrize("elimination", POLICIES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize(
    "kernel, cost", [(Kernel("rbf", 0.2), 1.0), (Kernel("rbf", 2.0), 50.0), (Kernel("linear"), 0.5)]
)
def test_is_the_optimum_of_svc(kernel, cost, kind, elimination):
    samples, labels = _samples()
    settings = Settings(kernel, cost, 1e-4, elimination)
    model = _fit(kind(samples), labels, settings)
    _check(model, kind(samples), labels, settings)


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "generated", "generated_sparse"])
def test_data_sets(name):
    whole = data.load(name, 500)
    settings = Settings(Kernel("rbf", data.scale_gamma(whole.samples)), 10.0, 1e-4)
    model = _fit(whole.samples, whole.labels, settings)
    _check(model, whole.samples, whole.labels, settings)
    theirs = SVC(C=10.0, gamma=settings.kernel.gamma).fit(whole.samples, whole.labels)
    right = np.mean((model.decision(whole.test_samples) > 0) == (whole.test_labels > 0))
    assert right == pytest.approx(theirs.score(whole.test_samples, whole.test_labels), abs=0.011)


def test_eliminated_samples_that_were_needed_come_back(monkeypatch):
    """Eliminated from the first iterations on, when f says little: many are wrongly so."""
    monkeypatch.setitem(POLICIES, "aggressive", Policy(period=0.01, early=50.0))
    samples, labels = _samples(400, seed=1)
    settings = Settings(Kernel("rbf", 2.0), 100.0, 1e-4, "aggressive")
    model = _fit(samples, labels, settings)
    assert model.reconstructions >= 2 and model.least_active < len(labels)
    _check(model, samples, labels, settings)


def test_nothing_is_eliminated_without_elimination():
    samples, labels = _samples()
    model = _fit(samples, labels, Settings(Kernel("rbf", 0.2), 1.0, 1e-4, "none"))
    assert model.reconstructions == 0 and model.least_active == len(labels)


@pytest.mark.parametrize("elimination", POLICIES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_shares_of_any_size(kind, elimination):
    """The last rank has none, and the first one most; labels in order, so one class on a rank."""
    samples, labels = _samples()
    order = np.argsort(labels, kind="stable")
    size = tf_adasum.size()
    ends = [0, *np.linspace(220 if size > 2 else 300, 300, max(size - 1, 1)).astype(int), 300]
    mine = order[ends[tf_adasum.rank()] : ends[tf_adasum.rank() + 1]]
    settings = Settings(Kernel("rbf", 0.5), 5.0, 1e-4, elimination)
    counts = MPI.COMM_WORLD.allgather(len(mine))
    assert sum(counts) == 300 and (size == 1 or counts[-1] == 0)
    model = _fit(kind(samples), labels, settings, mine)
    _check(model, kind(samples), labels, settings)


def test_fewer_samples_than_ranks():
    samples, labels = np.array([[0.0], [2.0]]), np.array([-1, 1])
    settings = Settings(Kernel("linear"), 10.0)
    model = _fit(samples, labels, settings)
    np.testing.assert_allclose(model.coefficients, [-0.5, 0.5])
    np.testing.assert_allclose(model.decision(np.array([[1.5]])), [0.5])


def test_equal_samples_of_both_classes():
    """K_11 + K_22 - 2 K_12 = 0: the step ends at a bound."""
    samples, labels = np.zeros((8, 2)), np.array([-1, 1] * 4)
    settings = Settings(Kernel("rbf", 1.0), 2.0)
    model = _fit(samples, labels, settings)
    np.testing.assert_array_equal(model.coefficients, 2.0 * labels)


def test_a_cache_of_two_rows_is_enough():
    """Every row is then sent and computed again and again; the steps are the same."""
    samples, labels = _samples()
    settings = Settings(Kernel("rbf", 0.5), 5.0, 1e-4, "none")
    model = _fit(samples, labels, settings)
    without = _fit(samples, labels, dataclasses.replace(settings, cache_bytes=1))
    assert _bits(model) == _bits(without)
    assert model.computed_columns < without.computed_columns


def test_in_a_part_of_the_ranks():
    samples, labels = _samples()
    settings = Settings(Kernel("rbf", 0.2))
    part = tf_adasum.world().split(color=tf_adasum.rank() % 2)
    mine = slice(part.rank, None, part.size)
    model = fit(samples[mine], labels[mine], settings, part)
    assert model.objective == pytest.approx(_fit(samples, labels, settings).objective, rel=1e-4)


def test_numbers_are_counted_in_the_order_of_the_ranks():
    samples, labels = _samples()
    parts = np.array_split(np.arange(len(labels)), tf_adasum.size())
    mine = parts[tf_adasum.rank()]
    model = fit(samples[mine], labels[mine], Settings(Kernel("rbf", 0.2), tolerance=1e-4))
    _check(model, samples, labels, Settings(Kernel("rbf", 0.2), tolerance=1e-4))


def test_ends_after_max_iterations():
    samples, labels = _samples()
    seen = []
    settings = Settings(Kernel("rbf", 0.2), tolerance=1e-6, max_iterations=20)
    model = fit(samples, labels, settings, progress=lambda *values: seen.append(values))
    assert model.iterations == 20 and not model.is_converged and model.gap > 2e-6
    assert seen == [(0, 2.0, 300)]


@pytest.mark.parametrize(
    "change, kind, text",
    [
        ({"labels": np.array([0, 1, 1])}, ValueError, "each 1 or -1"),
        ({"labels": np.array([1, 1, 1])}, ValueError, "samples of both classes"),
        ({"labels": np.array([1, -1])}, ValueError, "3 labels"),
        ({"samples": [[0.0], [1.0], [2.0]]}, TypeError, "samples as a NumPy array or CSR matrix"),
        ({"samples": np.zeros(3)}, ValueError, r"shape \[n, d\]"),
        ({"samples": np.array([[0.0], [np.nan], [1.0]])}, ValueError, "finite samples"),
        ({"numbers": np.arange(2)}, ValueError, "3 numbers"),
        ({"settings": Settings(elimination="eager")}, ValueError, "none, aggressive, lazy"),
        ({"settings": Settings(cost=0)}, ValueError, "a positive cost"),
        ({"settings": Settings(Kernel("poly"))}, ValueError, "a kernel rbf or linear"),
    ],
)
def test_refusals(change, kind, text):
    given = {"samples": np.array([[0.0], [1.0], [2.0]]), "labels": np.array([1, -1, 1]), **change}
    with pytest.raises(kind, match=rf"^rank {tf_adasum.rank()}: Expected .*{text}.*Received: ."):
        fit(**given)


@pytest.mark.parametrize("change", [{"cost": 2.0}, {"cache_bytes": 8}])
def test_settings_of_one_rank_alone_are_refused_on_all(change):
    if tf_adasum.size() == 1:
        return  # nobody to differ from
    is_last = tf_adasum.rank() == tf_adasum.size() - 1
    with pytest.raises(
        ValueError, match=r"Expected the same settings on all ranks.*Received: here"
    ):
        fit(np.eye(2), np.array([1, -1]), Settings(**(change if is_last else {})))


@pytest.mark.parametrize("of_last", [np.full((3, 1), np.inf), np.zeros((3, 2)), None])
def test_one_rank_s_mistake_is_an_error_on_all(of_last):
    samples, labels = np.array([[0.0], [1.0], [2.0]]), np.array([1, -1, 1])
    is_last = tf_adasum.rank() == tf_adasum.size() - 1
    if is_last:
        samples = sparse.csr_matrix(samples) if of_last is None else of_last
    if tf_adasum.size() == 1 and (of_last is None or np.isfinite(of_last).all()):
        return  # nobody to differ from
    with pytest.raises(ValueError, match=r"Expected .* Received: "):
        fit(samples, labels)
