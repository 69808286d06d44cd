"""The experiments' 1-bit, 0/1 and sketching optimizers take the steps of the references."""

import numpy as np
import pytest
import tensorflow as tf

from experiments.encoded_exchange import EncodedExchange
from experiments.exchanging_optimizers import (
    MomentumOptimizer,
    SketchedOptimizer,
    ZeroOneOptimizer,
)
from tests.reference import onebit, sketched
from tests.reference.codecs import sign
from tests.training.momentum_steps import NUM_ELEMENTS, REDUCTIONS, SIGN, drawn_gradients
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas
from tf_adasum.collectives.compression.count_sketch import CountSketch
from tf_adasum.optimizers import OneBitAdam, SketchedSGD, ZeroOneAdam

NUMBER, RATE, FREEZE_STEP = 3, 0.01, 7
# Of 0/1 Adam: steps 1 apart twice, then 2 apart; rounds of 1, 2 and then 4.
VARIANCE_STEPS, ROUNDS = (0, 1, 2, 4, 6), (1, 1, 2, 4, 4)
reductions = pytest.mark.parametrize("reduction", sorted(REDUCTIONS))


def _weights(kind, make, reduction, number_of_steps):
    """Those after each step, and the gradients."""
    weight = tf.Variable(np.linspace(-1, 1, NUM_ELEMENTS).astype(np.float32))
    workers = kind(make, [weight], NUMBER)
    exchange = EncodedExchange(NUMBER, [weight], SIGN)
    workers.reset(RATE)

    def reduce(stacked):
        of_workers = list(zip(*(tf.unstack(tensor, NUMBER) for tensor in stacked)))
        return allreduce_replicas(of_workers, reduction, None, "workers")

    @tf.function
    def step(gradients):
        workers.step([gradients], reduce, lambda x: exchange.results(reduce(exchange.arriving(x))))

    gradients, weights = drawn_gradients(number_of_steps, NUMBER), []
    for of_workers in gradients:
        step(tf.constant(of_workers))
        weights.append(weight.numpy())
    return weights, gradients


def _check(weights, gradients, reference, meets=lambda step: True, atol=5e-5):
    for step, weight in enumerate(weights):
        reference.step(list(gradients[step]))
        if meets(step):
            np.testing.assert_allclose(weight, reference.weight, rtol=0, atol=atol, err_msg=step)


def _first():
    return np.linspace(-1, 1, NUM_ELEMENTS).astype(np.float32)


@reductions
def test_one_bit_adam(reduction):
    weights, gradients = _weights(
        MomentumOptimizer, lambda: OneBitAdam(RATE, FREEZE_STEP), reduction, 14
    )
    references = REDUCTIONS[reduction], sign.q
    numbers = NUMBER, NUMBER
    _check(weights, gradients, onebit.OneBitAdam(_first(), RATE, FREEZE_STEP, references, numbers))


@reductions
def test_zero_one_adam(reduction):
    weights, gradients = _weights(
        ZeroOneOptimizer,
        lambda: ZeroOneAdam(RATE, FREEZE_STEP, 2, 2, 4),
        reduction,
        FREEZE_STEP + sum(ROUNDS),
    )
    reference = onebit.ZeroOneAdam(
        _first(),
        RATE,
        FREEZE_STEP,
        (REDUCTIONS[reduction], sign.q),
        (NUMBER, NUMBER),
        variance_steps=VARIANCE_STEPS,
        rounds=ROUNDS,
    )
    # Within a round the common weights are those of its beginning.
    ends = FREEZE_STEP - 1 + np.cumsum(ROUNDS)
    _check(weights, gradients, reference, lambda step: step < FREEZE_STEP or step in ends)


@reductions
def test_sketched_sgd(reduction):
    count, rows, columns, momentum = 11, 3, 13, 0.9
    settings = {
        "fraction": (count - 0.5) / NUM_ELEMENTS,
        "sketch_fraction": rows * (columns + 0.5) / NUM_ELEMENTS,
        "rows": rows,
        "least_elements": 0,
    }
    weights, gradients = _weights(
        SketchedOptimizer, lambda: SketchedSGD(RATE, momentum, **settings), reduction, 12
    )
    reference = sketched.SketchedSGD(
        _first(),
        (RATE, momentum),
        (count, columns),
        lambda step: CountSketch(NUM_ELEMENTS, rows, columns, seed=(step, 0)).factors().numpy(),
        REDUCTIONS[reduction],
        NUMBER,
    )
    _check(weights, gradients, reference, atol=1e-4)


def test_a_round_may_end_early():
    weight = tf.Variable(_first())
    workers = ZeroOneOptimizer(lambda: ZeroOneAdam(RATE, 1, 1, 1, 4), [weight], NUMBER)
    workers.reset(RATE)

    def mean(stacked):
        return [tf.reduce_mean(tensor, axis=0) for tensor in stacked]

    for of_workers in drawn_gradients(5, NUMBER):
        workers.step([tf.constant(of_workers)], mean, mean)
    before = weight.numpy()
    workers.end(mean)
    own = workers.own_weights[0].numpy()
    assert np.any(weight.numpy() != before)
    np.testing.assert_array_equal(own, np.broadcast_to(weight.numpy(), own.shape))
