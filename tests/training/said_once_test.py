"""What a program does again and again is told once: a line for each step helps nobody."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training.replicas import examples, wrapped_model
from tf_adasum.collectives.communicator import world


@pytest.fixture
def model():
    return wrapped_model()


def is_told():
    return world().rank == 0 and world().size > 1


def test_rows_of_each_ranks_own_choice(caplog, model):
    """As a program has it that asks for one row after the other, each begun by chance."""
    rows = np.random.default_rng(world().rank).normal(size=[5, 1, 4]).astype(np.float32)
    for row in rows:
        model.predict(row, verbose=0)
    assert caplog.text.count("predict: rank 1 was given other arrays") == is_told()


def test_weights_that_a_step_does_not_put_back(caplog, model):
    x, y = examples(4 * world().size)
    options = {"batch_size": 4 * world().size, "verbose": 0}
    model.fit(x, y, **options)
    for _ in range(3):
        # What is left of a change and its opposite is rounding, of each rank's own.
        model.set_weights([value + 1e-3 * (1 + world().rank) for value in model.get_weights()])
        model.evaluate(x, y, **options)
    assert caplog.text.count("variables differed on ") == is_told()
