"""Ranks whose `PyDataset` or generator goes through the data in an order of its own hear of it."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.training.replicas import examples, wrapped_model
from tf_adasum.collectives.communicator import world

ROWS = 48


class Shuffled(keras.utils.PyDataset):
    """As many programs have it: what orders the rows is NumPy's one generator."""

    def __init__(self, batch, with_targets=True, noise=False):
        super().__init__()
        self.x, self.y = examples(ROWS)
        self.batch, self.with_targets, self.noise = batch, with_targets, noise
        self.on_epoch_end()

    def on_epoch_end(self):
        self.order = np.random.permutation(ROWS)

    def __len__(self):
        return ROWS // self.batch

    def __getitem__(self, index):
        rows = self.order[index * self.batch : (index + 1) * self.batch]
        x = self.x[rows]
        if self.noise:
            x = x + np.random.default_rng().normal(size=x.shape).astype(x.dtype)
        return (x, self.y[rows]) if self.with_targets else (x,)


def generator(batch):
    data = Shuffled(batch)
    yield from (data[index] for index in range(len(data)))


def told(caplog, call):
    """How often rank 0 has said so, and that no other rank has."""
    line = f"{call}: rank 1 begins with batches of other rows than rank 0. "
    count = caplog.text.count(line)
    assert count == 0 or world().rank == 0
    assert count == caplog.text.count("batches of other rows")
    return count


@pytest.fixture
def model():
    return wrapped_model()


@pytest.fixture
def batch():
    return 4 * world().size


@pytest.mark.parametrize("make", [Shuffled, generator])
@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_unlike_orders_are_told(caplog, model, batch, make, call):
    for is_alike in (True, False):
        np.random.seed(1 if is_alike else 1 + world().rank)
        getattr(model, call)(make(batch), verbose=0)
        is_told = not is_alike and world().rank == 0 and world().size > 1
        assert told(caplog, call) == is_told


def test_inputs_may_be_drawn_by_chance(caplog, model, batch):
    np.random.seed(1)
    model.fit(Shuffled(batch, noise=True), verbose=0)
    assert told(caplog, "fit") == 0


def test_predictions_of_other_rows_are_told(caplog, model, batch):
    np.random.seed(1 + world().rank)
    model.predict(Shuffled(batch, with_targets=False), verbose=0)
    assert told(caplog, "predict") == (world().rank == 0 and world().size > 1)


def test_validation_data_are_compared_too(caplog, model, batch):
    np.random.seed(1)
    data = Shuffled(batch)
    np.random.seed(1 + world().rank)
    model.fit(data, validation_data=Shuffled(batch), verbose=0)
    assert told(caplog, "fit") == (world().rank == 0 and world().size > 1)
