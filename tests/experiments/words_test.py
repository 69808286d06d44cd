"""The experiment of the word vectors: its task is skip-gram, its choices look at no judge."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from experiments import tasks, words
from experiments.method import Method
from experiments.workers import Workers

RATE, BATCH = 0.3, 8


@pytest.fixture(scope="module")
def task():
    return tasks.words(1)


def _workers(task, number, reduction, rate):
    method = Method(reduction, lambda: keras.optimizers.SGD(0.1), batch=BATCH)
    workers = Workers(task, number, method)
    workers.reset(7, rate)
    random = np.random.default_rng(0)
    start = [random.standard_normal(weight.shape) for weight in workers.weights()]
    workers.move_to([weight.astype(np.float32) for weight in start], rate)
    return workers


def test_a_step_is_that_of_skip_gram(task):
    """Beside the step of Mikolov et al., written out for one pair after the other."""
    workers = _workers(task, 1, "mean", RATE)
    layers = [layer.name for layer in workers.model.layers if layer.weights]
    before = dict(zip(layers, workers.weights()))
    after = {name: weight.astype(np.float64) for name, weight in before.items()}
    drawn = np.arange(40, 40 + BATCH)
    for word, *candidates in task.train.inputs[drawn]:
        vector = before["vectors"][word]
        for number, candidate in enumerate(candidates):
            neighbour = before["neighbours"][candidate]
            error = (number == 0) - 1 / (1 + np.exp(-vector @ neighbour))
            after["vectors"][word] += RATE / BATCH * error * neighbour
            after["neighbours"][candidate] += RATE / BATCH * error * vector
    workers.train(drawn.reshape(1, 1, BATCH).astype(np.int32))
    for name, weight in zip(layers, workers.weights()):
        np.testing.assert_allclose(weight, after[name], atol=1e-5)
        assert np.abs(weight - before[name]).max() > 1e-2


def test_the_mean_at_n_times_the_rate_is_the_sum(task):
    """Which is why the sum is not tuned again."""
    weights = []
    for reduction, rate in (("sum", RATE), ("mean", 4 * RATE)):
        workers = _workers(task, 4, reduction, rate)
        workers.train(np.arange(5 * 4 * BATCH, dtype=np.int32).reshape(5, 4, BATCH))
        weights.append(workers.weights())
    for of_sum, of_mean in zip(*weights):
        np.testing.assert_allclose(of_sum, of_mean, atol=1e-5)


def test_passes_have_pairs_of_their_own():
    number = len(tasks.words(max(words.PASSES)).train.labels)
    one, two = (
        words._batches({**words.ONE, "passes": passes, "seed": 3}).ravel() for passes in (1, 2)
    )
    assert len(set(one)) == len(one) and one.max() < number / 2
    assert len(set(two)) == len(two) and len(two) >= number - words.BATCH
    np.testing.assert_array_equal(two[: len(one)], one)


def test_rates_are_chosen_by_what_does_not_judge():
    """Judged seeds and test accuracies that say otherwise change nothing."""
    runs = [
        {**setting, "validation": 1 - abs(np.log(setting["rate"])), "test": setting["rate"]}
        for setting in words.wanted([])
    ]
    assert {run["seed"] for run in runs} == set(words.CHOOSING)
    chosen = [words.best_rate(runs, kind, 1) for kind in words.KINDS]
    assert chosen == [0.4, 0.4, 3.2]
    judged = {**words.ONE, "passes": 1, "rate": 0.1, "seed": 0, "validation": 9.0, "test": 1.0}
    assert words.best_rate([*runs, judged], words.ONE, 1) == 0.4
    judged = [setting for setting in words.wanted(runs) if setting["seed"] in words.JUDGED]
    assert {setting["rate"] for setting in judged if setting["passes"] == 1} == {0.4, 3.2}
