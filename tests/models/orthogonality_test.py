"""The measure over all ranks: 1 for orthogonal gradients, 1/N for equal ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from models.digits.orthogonality import orthogonality
from tf_adasum.collectives.communicator import world

LOCAL = (1, 2)


@pytest.mark.parametrize("num_local", LOCAL)
def test_equal_gradients(num_local):
    leaf = [tf.constant([3.0, -4.0]), tf.constant([[1.0], [2.0]])]
    number = world().size * num_local
    assert float(orthogonality([leaf] * num_local)) == pytest.approx(1 / number, rel=1e-6)


@pytest.mark.parametrize("num_local", LOCAL)
def test_orthogonal_gradients(num_local):
    number = world().size * num_local
    first = world().rank * num_local
    leaves = [[tf.one_hot(first + r, number) * (2.0 + r)] for r in range(num_local)]
    assert float(orthogonality(leaves)) == pytest.approx(1, rel=1e-6)


def test_same_on_all_ranks_and_between_the_extremes():
    random = np.random.default_rng(world().rank)
    common = np.ones(50)
    leaves = [[tf.constant(common + random.normal(size=50), tf.float32)] for _ in range(2)]
    measured = float(orthogonality(leaves))
    from tf_adasum.collectives.allreduce import allreduce

    total = allreduce(tf.constant(measured), "sum", name="sum of measured")
    assert float(total) == pytest.approx(world().size * measured, rel=1e-6)
    assert 1 / (2 * world().size) < measured < 1


def test_zero_gradients_give_zero():
    assert float(orthogonality([[tf.zeros([3])], [tf.zeros([3])]])) == 0


def test_of_some_ranks_alone():
    """As rank 0 measures that trains one worker, while the others wait for its results."""
    some = world().split(color=0 if world().rank == 0 else None)
    if some is not None:
        leaves = [[tf.constant([3.0, 0.0])], [tf.constant([0.0, 4.0])]]
        assert float(orthogonality(leaves, some)) == pytest.approx(1, rel=1e-6)
        some.close()
    tf_adasum.barrier()
